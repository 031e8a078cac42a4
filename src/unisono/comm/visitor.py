"""How a rank that has lost others comes to one that may be left."""

from __future__ import annotations

import socket

from ..config import Address
from ..errors import ConfigError
from .addresses import nearest_first, own_addresses
from .calling import call_first
from .conversation import Talk, connect, within
from .frames import Channel, Closed, Garbled, Kind
from .handshake import introduce
from .rendezvous import Directory

SILENCE = 2.0  # of who is knocked at


class Silent(Exception):
    """Somebody listens, and does not let us in."""


class Visitor:
    """Knows where the refuges are."""

    def __init__(self, directory: Directory, rank: int) -> None:
        self._cards, self._secret, self._rank = directory.cards, directory.secret, rank
        self._own_addresses = own_addresses()

    def visit(self, rank: int, doubts: list[int]) -> Talk[tuple[Channel, Address]]:
        """Comes to where it would listen. OSError: nobody is there; Silent: somebody is, and does not let us in."""
        card = self._cards[rank]
        near = [Address(host, card.refuge) for host in nearest_first(card.addresses, self._own_addresses)]
        targets = [(socket.AF_INET6 if ":" in where.host else socket.AF_INET, where) for where in near]
        return (yield from call_first(targets, lambda channel, where: self._greet(channel, rank, where, doubts)))

    def _greet(self, channel: Channel, rank: int, where: Address, doubts: list[int]) -> Talk[None]:
        yield from within(SILENCE, connect(channel.sock, where))
        proof = introduce(channel, self._secret, purpose="shrink", rank=self._rank, peer=rank, where=str(where))
        try:
            yield from within(SILENCE, proof)
            yield from channel.send(Kind.COME, {"doubts": doubts})
        except (Closed, Garbled, ConfigError, TimeoutError) as error:
            raise Silent from error
