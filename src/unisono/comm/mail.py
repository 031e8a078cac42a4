"""Frames over the control connections, written and read by a thread of its own, whatever the program does meanwhile."""

from __future__ import annotations

import socket
import threading
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from time import monotonic
from typing import Any

from .conversation import Loop, Talk, readable
from .fork import in_a_forked_child
from .frames import Channel, Closed, Frame, Garbled, Kind

SECONDS_TO_SAY_GOODBYE = 0.2


class Mail:
    """Owns its thread, not the connections. All that it is given to call is called in the thread."""

    def __init__(
        self,
        channels: Mapping[int, Channel],
        *,
        heard: Callable[[int, Frame], bool],
        lost: Callable[[int, str], None],
        also: Callable[[], Talk[None]],
    ) -> None:
        """`heard` says whether there may be more from that rank; `also` is a conversation to hold besides."""
        self._channels = channels
        self._heard, self._lost, self._also = heard, lost, also
        self._outboxes: dict[int, deque[tuple[Kind, dict[str, Any]]]] = {rank: deque() for rank in channels}
        self._writing: set[int] = set()
        self._errands: deque[Callable[[], None]] = deque()
        self._loop = Loop()
        self._wake, self._woken = socket.socketpair()
        self._wake.setblocking(False)
        self._woken.setblocking(False)
        self._stopping = False
        self._thread: threading.Thread | None = threading.Thread(target=self._run, name="unisono-mail", daemon=True)
        in_a_forked_child(self, Mail._let_go)

    def start(self) -> None:
        assert self._thread, "it is new"
        self._thread.start()

    def soon(self, errand: Callable[[], None]) -> None:
        """Call this in the thread."""
        self._errands.append(errand)
        with suppress(BlockingIOError):  # it is full of what wakes it
            self._wake.send(b".")

    @property
    def runs_here(self) -> bool:
        """In the thread that asks?"""
        return self._thread is threading.current_thread()

    def close(self, goodbye: Callable[[], None]) -> None:
        """After this was called, and what it posts has gone, as far as there is room; may be called twice."""
        if self._thread is None:
            return

        def leave() -> None:
            goodbye()
            self._stopping = True

        self.soon(leave)
        self._thread.join()
        self._let_go()

    # In the thread

    def begin(self, talk: Talk[None]) -> None:
        """Hold one more conversation."""
        self._loop.start(talk)

    def post(self, rank: int, kind: Kind, body: dict[str, Any]) -> None:
        """After all that was posted to it before."""
        self._outboxes[rank].append((kind, body))
        if rank not in self._writing:
            self._writing.add(rank)
            self._loop.start(self._write(rank))

    def _run(self) -> None:
        with self._loop:
            self._loop.start(self._do_errands())
            self._loop.start(self._also())
            for rank in self._channels:
                self._loop.start(self._read(rank))
            self._loop.run(lambda: self._stopping)
            with suppress(TimeoutError):
                self._loop.run(lambda: not self._writing, monotonic() + SECONDS_TO_SAY_GOODBYE)

    def _do_errands(self) -> Talk[None]:
        while True:
            yield readable(self._woken)
            with suppress(BlockingIOError):
                self._woken.recv(4096)
            while self._errands:
                self._errands.popleft()()

    def _write(self, rank: int) -> Talk[None]:
        outbox = self._outboxes[rank]
        try:
            while outbox:
                yield from self._channels[rank].send(*outbox.popleft())
        except Closed:
            outbox.clear()  # whoever reads hears of it, too, after the last words
        finally:
            self._writing.discard(rank)

    def _read(self, rank: int) -> Talk[None]:
        try:
            while self._heard(rank, (yield from self._channels[rank].receive(*Kind))):
                pass
        except (Closed, Garbled) as error:
            self._lost(rank, f"its control connection ended: {error}")

    def _let_go(self) -> None:
        if self._thread is not None:
            self._thread = None
            self._wake.close()
            self._woken.close()
