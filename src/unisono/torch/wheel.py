"""Who takes conversations forward: whoever waits for one, and otherwise a thread.

A message that goes from thread to thread takes longer than the network needs for it. So a program that sends does it by
itself, and one that waits looks at the sockets itself; the thread is for what goes on while nobody waits.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from math import inf
from time import monotonic
from typing import Protocol

from ..comm.conversation import Loop, Talk, readable
from ..comm.fork import in_a_forked_child

SPIN = 0.0003
"""Seconds for which a program that waits looks again and again: to be woken takes about as long."""

AWAY = 0.004
"""Seconds for which the thread leaves the sockets to a program that has just waited."""


class Ended(Protocol):
    """Something that is through, of which others may want to be told."""

    def tell(self) -> None: ...


class Wheel:
    """Of one loop. What is done by `do`, and by the loop's conversations, is done by one thread at a time."""

    def __init__(self, loop: Loop) -> None:
        self.ended: list[Ended] = []  # who is told when others may go on
        self.fault: BaseException | None = None
        self._loop = loop
        self._turning = threading.Lock()
        self._waiting = threading.Lock()  # of who waits at the sockets
        self._left = 0.0  # when the last one did who did
        self._bell = threading.Event()  # for the thread, when it is away
        self._due = inf
        self._stopped = False
        self._wake, self._woken = socket.socketpair()
        for sock in (self._wake, self._woken):
            sock.setblocking(False)
            in_a_forked_child(sock, socket.socket.close)
        loop.start(self._hear_wakes())

    def do(self, errand: Callable[[], object]) -> None:
        """Beside nobody else."""
        due = self._due
        ended = self._turn(errand)
        if (ended and self._waiting.locked()) or self._due < due:
            self._ring()  # who waits at the sockets may wait no longer, or not for so long
        _tell(ended)

    def wait(self, through: threading.Event, seconds: float) -> bool:
        """Until it is through; False if that takes longer."""
        until = monotonic() + seconds
        while not through.is_set() and not self._stopped and monotonic() < until:
            if not self._waiting.acquire(blocking=False):
                break  # another thread does this
            try:
                ended = [] if self._stopped else self._turn(self._loop.turn)
                if not through.is_set() and not self._stopped and not ended:
                    self._loop.linger(min(self._due, until), SPIN)
            finally:
                self._left = monotonic()
                self._waiting.release()
            _tell(ended)
        return through.wait(None if until == inf else max(0.0, until - monotonic()))

    def serve(self, finished: Callable[[], bool], until: float = inf) -> None:
        """For the thread: until it is finished, or that moment."""
        while not finished() and not self.fault and monotonic() < until:
            if self._waiting.locked() or monotonic() < self._left + AWAY:
                self._bell.wait(AWAY)
                self._bell.clear()
            else:
                self._loop.linger(min(self._due, until))
                self.do(self._loop.turn)

    def wake(self) -> None:
        """The thread looks whether it is finished."""
        self._left = 0.0
        self._bell.set()
        self._ring()

    def stop(self, last: Callable[[], None]) -> None:
        """Nobody waits at the sockets any more, after this has been done."""
        self._stopped = True
        ended = self._turn(last)
        self._ring()
        with self._waiting:
            self._wake.close()
            self._woken.close()
        _tell(ended)

    def _ring(self) -> None:
        with suppress(OSError):  # it is full of what wakes, or closed
            self._wake.send(b".")

    def _turn(self, errand: Callable[[], object]) -> list[Ended]:
        with self._turning:
            try:
                errand()
                self._due = self._loop.due()
            except BaseException as error:  # nobody shall wait for what was interrupted
                self.fault = error
                self.wake()
                raise
            ended, self.ended = self.ended, []
        return ended

    def _hear_wakes(self) -> Talk[None]:
        while True:
            yield readable(self._woken)
            with suppress(BlockingIOError):
                self._woken.recv(4096)


def _tell(ended: list[Ended]) -> None:
    for each in ended:
        each.tell()
