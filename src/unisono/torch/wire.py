"""A connection between two ranks that carries messages: a header, and the elements of a tensor after it.

HOME       whose memory this is, for who is on the same host and may read it
LETTER     short messages, at once; who did not expect one keeps it
OFFER      of a longer one, which stays where it is until the receiver says
CLEAR      that it has room, or
READ       that it has read it out of the sender's memory, or
REFUSED    that it awaits something of another size; the answer to CLEAR is the
BODY       straight into the receiver's tensor, the answer to READ is
SETTLED    and that to both is
WITHDRAWN  if the sender has given up meanwhile, and may use its tensor again
"""

from __future__ import annotations

import socket
import struct
from collections import deque
from collections.abc import Callable
from enum import IntEnum
from typing import NamedTuple

from .._native import read_process
from ..comm.conversation import Loop, Talk, pause, readable, writable
from ..comm.fork import in_a_forked_child
from ..comm.frames import Closed

MOST_AT_ONCE = 1 << 20
"""Bytes between two looks at the other connections."""

MOST_READ = 1 << 22
"""The same, of another process."""

JOINED = 1 << 16
"""Bytes of a message up to which it goes together with its header, so that nobody is woken twice for it."""


class Kind(IntEnum):
    LETTER = 1
    OFFER = 2
    CLEAR = 3
    REFUSED = 4
    BODY = 5
    WITHDRAWN = 6
    HOME = 7
    READ = 8
    SETTLED = 9


class Header(NamedTuple):
    kind: int
    tag: int
    number: int  # of an offer, as the sender counts
    size: int  # bytes
    address: int = 0  # of what is offered


_LAYOUT = struct.Struct("<IqQQQ")


class Wire:
    """One end. All of it happens in the turn of its loop."""

    def __init__(self, sock: socket.socket, peer: int, loop: Loop) -> None:
        self.peer = peer
        self._sock = sock
        self._loop = loop
        self.process = 0  # whose memory can be read, at the other end
        self._outbox: deque[tuple[memoryview, Callable[[], None]]] = deque()
        self._writing = False
        if sock.family != socket.AF_UNIX:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        in_a_forked_child(self, Wire.close)

    @property
    def idle(self) -> bool:
        """Has all gone that was written?"""
        return not self._writing

    def write(self, header: Header, body: memoryview | None = None, sent: Callable[[], None] = lambda: None) -> None:
        """After what was written before; says when it has gone."""
        head = memoryview(_LAYOUT.pack(*header))
        if body is None or len(body) <= JOINED:
            self._outbox.append((memoryview(b"".join((head, body or b""))), sent))
        else:
            self._outbox.append((head, lambda: None))
            self._outbox.append((body, sent))
        if not self._writing:
            self._writing = True
            self._loop.start(self._write())

    def _write(self) -> Talk[None]:
        """What goes wrong is seen by who reads."""
        try:
            while self._outbox:
                data, sent = self._outbox[0]
                while len(data):
                    try:
                        data = data[self._sock.send(data[:MOST_AT_ONCE], socket.MSG_NOSIGNAL) :]
                    except BlockingIOError:
                        yield writable(self._sock)
                self._outbox.popleft()
                sent()
        except OSError:
            self._outbox.clear()
        finally:
            self._writing = False

    def go_on(self, talk: Talk[None]) -> None:
        """With what belongs to it, besides."""
        self._loop.start(talk)

    def read_header(self) -> Talk[Header]:
        """The next one; Closed if the other end has gone."""
        head = bytearray(_LAYOUT.size)
        yield from self.read_into(memoryview(head))
        return Header(*_LAYOUT.unpack(head))

    def read_into(self, room: memoryview, is_given_up: Callable[[], bool] = lambda: False) -> Talk[None]:
        """Fill all of it; from the moment that it is given up on, what comes is thrown away."""
        while len(room):
            if is_given_up():
                room, is_given_up = memoryview(bytearray(len(room))), lambda: False
            try:
                count = self._sock.recv_into(room[:MOST_AT_ONCE])
            except BlockingIOError:
                yield readable(self._sock)
                continue
            except OSError as error:
                raise Closed(error.strerror) from error
            if not count:
                raise Closed("connection closed")
            room = room[count:]

    def read_from(self, address: int, into: int, size: int, is_given_up: Callable[[], bool]) -> Talk[bool]:
        """Copy so many bytes from the memory of the process at the other end; False if that cannot be."""
        for at in range(0, size, MOST_READ):
            if at:
                yield pause(0.0)
            if is_given_up():
                break
            if not read_process(self.process, address + at, into + at, min(MOST_READ, size - at)):
                return False
        return True

    def close(self) -> None:
        self._sock.close()
