"""One authenticated connection to a shard: the handshake of the ranks, for another purpose."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from time import monotonic, sleep

from ..comm.conversation import Talk, connect, hold
from ..comm.frames import Channel, Closed, Garbled, describe
from ..comm.handshake import Secret, introduce
from ..config import Address
from ..errors import PeerLost

PURPOSE = "parameters"
PEERS = 1 << 16  # a worker comes with the number of a thread; another server's shard with its own, beyond this
ATTEMPT = 5.0  # seconds
PAUSE = 0.02


@dataclass(frozen=True)
class Caller:
    """Who comes: a worker, or another server."""

    secret: Secret
    number: int
    name: str


def dial(caller: Caller, server: int, address: Address, stream: int, patience: float) -> int:
    """The descriptor of a connection to a server. PeerLost if it is not there in time."""
    where = f"server {server} at {address}"
    until, why = monotonic() + patience, "nobody answered"
    while True:
        try:
            talk = _call(caller, server, address, stream, where)
            return hold(talk, min(until, monotonic() + ATTEMPT)).sock.detach()
        except TimeoutError:  # of this attempt; an earlier one may have had a better reason
            pass
        except (OSError, Closed, Garbled) as error:
            why = describe(error) or why
        if monotonic() >= until:
            raise PeerLost(f"{caller.name} cannot reach {where}: {why}")
        sleep(PAUSE)


def _call(caller: Caller, server: int, address: Address, stream: int, where: str) -> Talk[Channel]:
    found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    why: OSError = ConnectionRefusedError()
    for family, _, _, _, target in found:
        channel = Channel(socket.socket(family, socket.SOCK_STREAM))
        try:
            yield from connect(channel.sock, target)
            yield from introduce(
                channel,
                caller.secret,
                purpose=PURPOSE,
                rank=caller.number,
                peer=server,
                where=where,
                stream=stream,
            )
            return channel
        except OSError as error:
            channel.close()
            why = error
        except BaseException:
            channel.close()
            raise
    raise why
