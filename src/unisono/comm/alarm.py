"""A rank that gives up, as on Ctrl-C, tells the others, wherever they are: in a call, in a thread's call, or in none.

Control connections carry the word: everybody tells rank 0, and rank 0 everybody. A thread waits for it, because a rank
may be blocked in native code, and rank 0 has to pass on what it hears even if it makes no call for an hour. The thread
sets a descriptor off that the executor watches along with the lives of its peers; the call that fails of it then asks
here for the cause.
"""

from __future__ import annotations

import os
import select
import socket
import threading
from contextlib import suppress
from time import monotonic

from ..errors import DeadlineExceeded, MismatchError, PeerLost, UnisonoError
from .control import Control
from .conversation import hold
from .fork import in_a_forked_child
from .frames import HEADER, Kind

PATIENCE = 0.3  # for the word of a rank that died: it may have said why
PATIENCE_WITH_ANOTHER = 3 * PATIENCE  # who knows why is patient, too, before it tells
SECOND_HAND = "has given up a call"
"""How the native core ends its words about a failure that another rank knows more of."""

SECONDS_FOR_A_FRAME = 1.0


class Alarm:
    """One rank's end of it. Owns its thread and its descriptors, not the connections."""

    def __init__(self, control: Control) -> None:
        self._control = control
        self._bell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._stop = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._rung = threading.Event()
        self._thread: threading.Thread | None = None
        in_a_forked_child(self, Alarm._let_go)
        if control.channels:
            self._epoll = select.epoll()
            self._thread = threading.Thread(target=self._listen, name="unisono-alarm", daemon=True)
            self._thread.start()

    @property
    def descriptor(self) -> int:
        """Readable from the moment at which a rank has given up."""
        return self._bell

    @property
    def cause(self) -> UnisonoError | None:
        """Why this communicator is of no use any more, if a rank has given up."""
        return self._control.failure

    def explain(self, error: BaseException, call: str) -> BaseException:
        """What to raise for what ended a call: the first cause, which all ranks are told."""
        if isinstance(error, (DeadlineExceeded, MismatchError, PeerLost)) and self._thread:
            if isinstance(error, PeerLost):
                self._rung.wait(PATIENCE_WITH_ANOTHER if str(error).endswith(SECOND_HAND) else PATIENCE)
            self._control.abort(error)  # unless there is an earlier cause, which everybody knows
            self._ring()
            return self.cause or error
        if not isinstance(error, Exception):
            name = self._control.names[self._control.rank]
            self._control.abort(PeerLost(f"{name} was interrupted in {call}"))
            self._ring()
        return error

    def close(self) -> None:
        """May be called twice."""
        if self._bell < 0:
            return
        os.eventfd_write(self._stop, 1)
        if self._thread:
            self._thread.join()
        self._let_go()

    def _let_go(self) -> None:
        if self._bell < 0:
            return
        if self._thread:
            self._epoll.close()
        os.close(self._bell)
        os.close(self._stop)
        self._bell = -1

    def _ring(self) -> None:
        if self._bell >= 0:
            os.eventfd_write(self._bell, 1)
        self._rung.set()

    def _listen(self) -> None:
        ranks = {descriptor: rank for rank, descriptor in self._control.descriptors.items()}
        self._epoll.register(self._stop, select.EPOLLIN)
        for descriptor in ranks:
            # On edges: a message that is not for us stays there until its reader takes it.
            self._epoll.register(descriptor, select.EPOLLIN | select.EPOLLET)
        while True:
            for descriptor, _ in self._epoll.poll():
                if descriptor == self._stop or self._heard(ranks[descriptor]):
                    return

    def _heard(self, rank: int) -> bool:
        """Has this rank given up, or rank 0 told of one that has?"""
        with self._control.talking:
            if not self._control.failure:
                if _next_kind(self._control.channels[rank].sock) != Kind.ABORT:
                    return False
                try:
                    hold(self._control.read(rank), monotonic() + SECONDS_FOR_A_FRAME)
                except UnisonoError as cause:
                    self._control.abort(cause)  # on rank 0: everybody hears of it
                except TimeoutError:
                    return False
        self._ring()
        return True


def _next_kind(sock: socket.socket) -> int:
    """The kind of the frame that comes next; 0 if it is not there yet, or nothing will come any more."""
    with suppress(OSError):
        head = sock.recv(HEADER.size, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        if len(head) == HEADER.size:
            return int(HEADER.unpack(head)[2])
    return 0
