"""Who comes to a listening socket: a bounded number at a time, each for a bounded time, and whatever they do, the
socket goes on listening until nobody is expected any more.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import monotonic
from typing import Any

from ..config import Settings
from .conversation import Loop, Talk, Task, pause, readable
from .frames import Channel, Closed, Garbled, OtherVersion
from .refusals import OF_THIS_PROCESS, Refusals, Refused, Why, log

PATIENCE = 10.0  # for a stranger to become known
MOST = 128  # at a time, beyond the ranks of the job
AT_ONCE = 32  # are let in before those inside get their turn
WITHOUT_ROOM = 0.02  # seconds until the next attempt, where there is nobody to send away

Serve = Callable[[Channel], Talk[None]]

# What accept(2) says of a connection, not of the socket that listens: the next one may be fine.
_OF_ONE_CONNECTION = {
    errno.ECONNABORTED, errno.EPROTO, errno.EPERM, errno.EINTR, errno.ENETDOWN, errno.ENOPROTOOPT, errno.EHOSTDOWN,
    errno.ENONET, errno.EHOSTUNREACH, errno.EOPNOTSUPP, errno.ENETUNREACH,
}  # fmt: skip


@dataclass(eq=False)
class Stranger:
    """A connection, where it comes from, and the conversation with it, if that has begun."""

    channel: Channel
    where: str
    task: Task | None = None

    @property
    def gone(self) -> bool:
        return self.task is not None and self.task.done


class Strangers:
    """Those at one listening socket, whose owner closes it."""

    def __init__(self, listener: socket.socket, *, settings: Settings, refusals: Refusals = OF_THIS_PROCESS) -> None:
        self.listener = listener
        self._by = f"rank {settings.rank} of job {settings.job} (host {settings.host}, pid {os.getpid()})"
        self._most = settings.size + MOST
        self._refusals = refusals
        self._here: dict[Stranger, None] = {}  # the oldest first

    def collect(self, loop: Loop) -> Task:
        """Takes them out of the system's queue, so that it never is full, and lets them wait."""
        return loop.start(self._accept(loop, None))

    def serve(self, loop: Loop, serve: Serve) -> Task:
        """Serves those who wait, and all who come."""
        for stranger in self._here:
            self._begin(loop, stranger, serve)
        return loop.start(self._accept(loop, serve))

    def close(self) -> None:
        """Sends those away that nobody has begun to serve; the others end with their loop."""
        for stranger in self._here:
            if not stranger.task:
                stranger.channel.close()
        self._here.clear()

    def _accept(self, loop: Loop, serve: Serve | None) -> Talk[None]:
        while True:
            yield readable(self.listener)
            for _ in range(AT_ONCE):
                try:
                    sock, address = self.listener.accept()
                except BlockingIOError:
                    break
                except OSError as error:
                    if error.errno in _OF_ONE_CONNECTION:
                        continue
                    if not self._drop_one(loop, Why.NO_ROOM):
                        log.debug("cannot accept a connection: %s", error)
                        yield pause(WITHOUT_ROOM)
                    break
                self._welcome(loop, Stranger(Channel(sock), _origin(sock, address)), serve)

    def _welcome(self, loop: Loop, stranger: Stranger, serve: Serve | None) -> None:
        for other in [other for other in self._here if other.gone]:
            del self._here[other]
        if len(self._here) >= self._most:
            self._drop_one(loop, Why.CROWD)
        self._here[stranger] = None
        if serve:
            self._begin(loop, stranger, serve)

    def _begin(self, loop: Loop, stranger: Stranger, serve: Serve) -> None:
        stranger.task = loop.start(self._guard(stranger, serve), monotonic() + PATIENCE)

    def _drop_one(self, loop: Loop, why: Why) -> bool:
        """The oldest, but rather one that has not said yet that it belongs to this job: who has is probably a rank."""
        stranger = next(self._by_likelihood(), None)
        if stranger is None:
            return False
        del self._here[stranger]
        self._refusals.note(why, by=self._by, where=stranger.where)
        if stranger.task:
            loop.cancel(stranger.task)
        stranger.channel.close()
        return True

    def _by_likelihood(self) -> Iterator[Stranger]:
        present = [stranger for stranger in self._here if not stranger.gone]
        yield from (stranger for stranger in present if not stranger.channel.greeted)
        yield from (stranger for stranger in present if not stranger.channel.trusted)

    def _guard(self, stranger: Stranger, serve: Serve) -> Talk[None]:
        """The channel is closed unless it was served to the end."""
        channel = stranger.channel
        try:
            yield from serve(channel)
        except (Closed, Garbled, Refused, TimeoutError, OSError) as error:
            channel.close()
            if channel.trusted and not isinstance(error, Refused):
                log.debug("lost the connection from %s: %s", stranger.where, error or "it took too long")
            else:
                details = error.details if isinstance(error, Refused) else str(error)
                self._refusals.note(_why(error), by=self._by, where=stranger.where, details=details)
        except BaseException:
            channel.close()
            raise


def _why(error: Exception) -> Why:
    if isinstance(error, Refused):
        return error.why
    if isinstance(error, OtherVersion):
        return Why.VERSION
    if isinstance(error, TimeoutError):
        return Why.SILENCE
    return Why.NONSENSE if isinstance(error, Garbled) else Why.HUNG_UP


def _origin(sock: socket.socket, address: Any) -> str:
    if sock.family != socket.AF_UNIX:
        host, port = address[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    pid, user, _ = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return f"process {pid} of user {user}"
