"""Who went on without a lost rank says so, if that rank turns up after all: it was stopped, or late.

Otherwise it would take those for dead that closed the old communicator, and go on as a second group. A thread answers,
where they were to meet, for as long as the new communicator lives.
"""

from __future__ import annotations

import socket
import threading

from ..config import Settings
from .conversation import Loop, Talk, readable
from .fork import in_a_forked_child
from .frames import Channel, Kind
from .handshake import Secret, admit
from .refuge import Refuge, stop_listening
from .strangers import Strangers


class Testimony:
    """One rank's word about one communicator. Closed when all who hold it have closed it."""

    def __init__(self, refuge: Refuge, secret: Secret, settings: Settings) -> None:
        self._listener = socket.socket(fileno=refuge.listener())
        self._secret, self._settings = secret, settings
        self._stop, self._stopped = socket.socketpair()
        self._holders = 1
        self._word: dict[str, object] = {}
        self._ending = False
        self._thread: threading.Thread | None = None
        in_a_forked_child(self, Testimony._let_go)

    def begin(self, members: list[int], job: str) -> None:
        """These ranks went on, as this job."""
        self._word = {"members": members, "job": job}
        self._thread = threading.Thread(target=self._listen, name="unisono-testimony", daemon=True)
        self._thread.start()

    def hold(self) -> Testimony:
        """For one more that closes it."""
        self._holders += 1
        return self

    def close(self) -> None:
        self._holders -= 1
        if self._holders == 0:
            self.withdraw()

    def withdraw(self) -> None:
        """Whoever holds it; may be called twice."""
        if self._listener.fileno() < 0:
            return
        if self._thread:
            self._stop.send(b"x")
            self._thread.join()
            stop_listening(self._listener)
        self._let_go()

    def _let_go(self) -> None:
        self._listener.close()
        self._stop.close()
        self._stopped.close()

    def _listen(self) -> None:
        with Loop() as loop:
            Strangers(self._listener, settings=self._settings).serve(loop, self._answer)
            loop.start(self._wait_for_the_end())
            loop.run(lambda: self._ending)

    def _wait_for_the_end(self) -> Talk[None]:
        yield readable(self._stopped)
        self._ending = True

    def _answer(self, channel: Channel) -> Talk[None]:
        yield from admit(channel, self._secret, purpose="shrink", rank=self._settings.rank)
        yield from channel.receive(Kind.COME)
        yield from channel.send(Kind.WENT_ON, self._word)
        channel.close()
