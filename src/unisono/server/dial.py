"""One authenticated connection to a shard: the handshake of the ranks, for another purpose.

Whether a worker and a server share a host is tried, not guessed: the server says where its Unix socket is, and who can
connect to that passes the memory through which both will talk. All others take TCP.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

from ..comm.calling import call_first
from ..comm.conversation import Talk, connect, hold
from ..comm.frames import Channel, Closed, Garbled, Kind, describe
from ..comm.handshake import Secret, introduce
from ..comm.refusals import log
from ..config import Address
from ..errors import PeerLost, UnisonoError

if TYPE_CHECKING:
    from .._native import Inbox

PURPOSE = "parameters"
PEERS = 1 << 16  # a worker comes with the number of a thread; another server's shard with its own, beyond this
DOOR = 1 << 17  # who comes with this asks for the name of the Unix socket
ABSENCE = 1 << 18  # and with this, tells that the worker of its number will not come
ATTEMPT = 5.0  # seconds
PAUSE = 0.02


class Unanswered(PeerLost):
    """Somebody may be there, who said nothing in all that time: a dead server's host would have refused."""


@dataclass(frozen=True)
class Caller:
    """Who comes: a worker, or another server."""

    secret: Secret
    number: int
    name: str
    shares: bool = False  # memory, with a server of the same host


@dataclass(frozen=True)
class Line:
    """The descriptor of a connection, and the memory that both ends have mapped, if they do."""

    socket: int
    lane: Inbox | None = None


def dial(caller: Caller, server: int, address: Address, stream: int, patience: float) -> Line:
    """A connection to a server. PeerLost if it is not there in time, Unanswered if it may be."""
    where = f"server {server} at {address}"
    until, why = monotonic() + patience, ""
    while True:
        try:
            return hold(_reach(caller, server, address, stream, where), min(until, monotonic() + ATTEMPT))
        except TimeoutError:  # of this attempt; an earlier one may have had a better reason
            pass
        except (OSError, Closed, Garbled) as error:
            why = describe(error) or type(error).__name__
        if monotonic() >= until:
            kind = PeerLost if why else Unanswered
            raise kind(f"{caller.name} cannot reach {where}: {why or 'nobody answered'}")
        sleep(PAUSE)


def _reach(caller: Caller, server: int, address: Address, stream: int, where: str) -> Talk[Line]:
    if caller.shares:
        channel = yield from _call(caller, server, address, DOOR, where)
        try:
            door = (yield from channel.receive(Kind.CARD)).get("unix", str)
        finally:
            channel.close()
        line = (yield from _share(caller, server, door, stream, where)) if door else None
        if line:
            return line
    channel = yield from _call(caller, server, address, stream, where)
    return Line(channel.sock.detach())


def _share(caller: Caller, server: int, door: str, stream: int, where: str) -> Talk[Line | None]:
    """Nothing if they do not share a host, whatever the reason."""
    from .._native import make_lane

    channel = Channel(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
    try:
        yield from connect(channel.sock, f"\0{door}")
        lane = make_lane()
        yield from _introduce(channel, caller, server, stream, where)
        yield from channel.send(Kind.INBOX, {}, descriptor=lane.descriptor())
        yield from channel.receive(Kind.SHARED)
        return Line(channel.sock.detach(), lane)
    except TimeoutError:
        raise
    except (OSError, Closed, Garbled, UnisonoError) as error:
        log.debug("%s shares no memory with %s: %s", caller.name, where, error)
        return None
    finally:
        channel.close()


def _call(caller: Caller, server: int, address: Address, stream: int, where: str) -> Talk[Channel]:
    def greet(channel: Channel, target: Any) -> Talk[None]:
        yield from connect(channel.sock, target)
        yield from _introduce(channel, caller, server, stream, where)

    found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    channel, _ = yield from call_first([(family, target) for family, _, _, _, target in found], greet)
    return channel


def _introduce(channel: Channel, caller: Caller, server: int, stream: int, where: str) -> Talk[None]:
    yield from introduce(
        channel, caller.secret, purpose=PURPOSE, rank=caller.number, peer=server, where=where, stream=stream
    )
