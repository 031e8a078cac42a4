"""Control frames: a packed header and a JSON object. No pickle, so bytes from the network are never code.

    magic "UNIS" · version · kind · two zero bytes · length of the body

A stranger may send anything, at any pace: a body is at most 4 KiB until its sender has proved that it knows the job
key, reading stops at the end of the frame, and every read has the deadline of the conversation that it is part of.
"""

from __future__ import annotations

import json
import os
import socket
import struct
from array import array
from enum import IntEnum
from typing import Any, NamedTuple, TypeVar

from ..errors import ConfigError
from .conversation import Talk, readable, writable
from .fork import in_a_forked_child

MAGIC, VERSION = b"UNIS", 1
HEADER = struct.Struct("!4sBBHI")
MOST_FROM_STRANGERS = 4 << 10
MOST = 1 << 20
_JSON = json.JSONEncoder(separators=(",", ":"))

T = TypeVar("T")


class Kind(IntEnum):
    # handshake
    HELLO = 1
    CHALLENGE = 2
    PROOF = 3
    WELCOME = 4
    REFUSED = 5
    # rendezvous
    CARD = 16
    ACCEPTED = 17
    DIRECTORY = 18
    # wiring
    INBOX = 32
    SHARED = 33
    WIRED = 34
    STOP = 35
    VERDICT = 36
    # afterwards
    MESSAGE = 48
    ABORT = 49
    BYE = 50
    # failures
    REPORT = 64
    VERDICT_OF_ALL = 65
    LONG_WAIT = 66
    ASK = 67
    ANSWER = 68
    # to begin again
    PART = 80
    PRESENT = 81
    WHOLE = 82
    # shrinking
    COME = 96
    WAIT = 97
    ELSEWHERE = 98
    MEMBERS = 99
    WENT_ON = 100


class Closed(Exception):
    """The other end closed the connection, or vanished."""


class Garbled(Exception):
    """These bytes are no frame, or not the frame that is due."""


class OtherVersion(Garbled):
    """A frame of another version of unisono."""


class Frame(NamedTuple):
    kind: Kind
    body: dict[str, Any]
    descriptors: tuple[int, ...] = ()

    def get(self, name: str, kind: type[T]) -> T:
        """A field that must be there, of this type."""
        value = self.body.get(name)
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise Garbled(f"{self.kind.name} has no {kind.__name__} {name!r}")
        return value


def encode(kind: Kind, body: dict[str, Any]) -> bytes:
    try:
        data = _JSON.encode(body).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError(f"a control message has to be JSON: {error}") from error
    if len(data) > MOST:
        raise ConfigError(f"a control message of {len(data)} bytes is above the limit of {MOST}")
    return HEADER.pack(MAGIC, VERSION, kind, 0, len(data)) + data


class Channel:
    """Frames over a connected stream socket, which never blocks. Owns the socket."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        in_a_forked_child(sock, socket.socket.close)
        self.sock = sock
        self.greeted = False  # the other end says that it belongs to this job
        self.trusted = False  # and has proved it

    def send(self, kind: Kind, body: dict[str, Any], *, descriptor: int | None = None) -> Talk[None]:
        data = memoryview(encode(kind, body))
        while data:
            try:
                if descriptor is not None:
                    data = data[_send_descriptor(self.sock, data, descriptor) :]
                    descriptor = None  # it travelled with the first byte
                else:
                    data = data[self.sock.send(data, socket.MSG_NOSIGNAL) :]
            except BlockingIOError:
                yield writable(self.sock)
            except OSError as error:
                raise Closed(error.strerror) from error

    def receive(self, *expected: Kind, descriptors: int = 0) -> Talk[Frame]:
        """The next frame, one of the expected kinds, with up to so many descriptors; REFUSED is always possible."""
        passed: list[int] = []
        try:
            head = yield from self._read(HEADER.size, passed, descriptors)
            magic, version, number, zero, length = HEADER.unpack(head)
            if magic != MAGIC or zero:
                raise Garbled("not a frame")
            if version != VERSION:
                raise OtherVersion(f"version {version} of the protocol; this is version {VERSION}")
            if length > (MOST if self.trusted else MOST_FROM_STRANGERS):
                raise Garbled(f"a frame of {length} bytes")
            data = yield from self._read(length, passed, 0)
            frame = Frame(_kind(number), _parse(data), tuple(passed))
            if frame.kind not in expected and frame.kind is not Kind.REFUSED:
                raise Garbled(f"{frame.kind.name} instead of {' or '.join(kind.name for kind in expected)}")
        except BaseException:
            close_descriptors(passed)
            raise
        return frame

    def _read(self, count: int, passed: list[int], descriptors: int) -> Talk[bytes]:
        """Exactly so many bytes: what follows a frame may belong to somebody else."""
        data = bytearray()
        while len(data) < count:
            step = min(count - len(data), 1 << 16)
            try:
                if descriptors:
                    part, arrived = _receive_descriptors(self.sock, step, descriptors)
                    passed.extend(arrived)
                else:
                    part = self.sock.recv(step)
            except BlockingIOError:
                yield readable(self.sock)
                continue
            except OSError as error:
                raise Closed(error.strerror) from error
            if not part:
                raise Closed("connection closed")
            data += part
        return bytes(data)

    def close(self) -> None:
        self.sock.close()


# Python's own send_fds and recv_fds take flags and forget them: what is received could be inherited.


def _send_descriptor(sock: socket.socket, data: memoryview, descriptor: int) -> int:
    passed = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", [descriptor]))]
    return sock.sendmsg([data], passed, socket.MSG_NOSIGNAL)


def _receive_descriptors(sock: socket.socket, count: int, most: int) -> tuple[bytes, list[int]]:
    arrived = array("i")
    room = socket.CMSG_LEN(most * arrived.itemsize)
    data, passed, _, _ = sock.recvmsg(count, room, socket.MSG_CMSG_CLOEXEC)
    for level, kind, content in passed:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            arrived.frombytes(content[: len(content) - len(content) % arrived.itemsize])
    return data, arrived.tolist()


def _kind(number: int) -> Kind:
    try:
        return Kind(number)
    except ValueError:
        raise Garbled(f"a frame of kind {number}") from None


def _parse(data: bytes) -> dict[str, Any]:
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):
        raise Garbled("a body that is not JSON") from None
    if not isinstance(body, dict):
        raise Garbled("a body that is not a JSON object")
    return body


def close_descriptors(descriptors: list[int] | tuple[int, ...]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def describe(error: Exception) -> str:
    """What went wrong, without the number."""
    return (error.strerror if isinstance(error, OSError) else str(error)) or "no answer in time"
