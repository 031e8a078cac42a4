"""Brings messages that arrive together with those who await them."""

from __future__ import annotations

from typing import NamedTuple

from ..comm.conversation import Talk
from ..errors import MismatchError
from .letter import Letter
from .wheel import Wheel
from .wire import Header, Kind, Wire


class Arrived(NamedTuple):
    """What came before it was asked for: its bytes, or the number of an offer."""

    wire: Wire | None  # None: from this rank itself
    tag: int
    content: bytearray | int
    size: int
    address: int = 0

    def source(self, own: int) -> int:
        return self.wire.peer if self.wire else own


class Sorting:
    """Of one rank in one group. All of it happens at the wheel of the post."""

    def __init__(self, rank: int, wheel: Wheel) -> None:
        self._wheel = wheel
        self.under_way: dict[Letter, None] = {}  # the oldest first
        self._rank = rank
        self._arrived: list[Arrived] = []
        self._cleared: dict[tuple[int, int], Letter] = {}  # by sender, and the number of its offer

    def end(self, letter: Letter, error: Exception | None = None, source: int = -1) -> None:
        """A message is through, or will never be."""
        self.under_way.pop(letter, None)
        letter.end(source, error)
        self._wheel.ended.append(letter)

    def receive(self, letter: Letter) -> bool:
        """Give it what has arrived for it; whether there was something."""
        for at, arrived in enumerate(self._arrived):
            if arrived.tag == letter.tag and letter.peer in (None, arrived.source(self._rank)):
                del self._arrived[at]
                self._match(letter, arrived)
                return True
        return False

    def take(self, arrived: Arrived) -> None:
        """Give it to who awaits it, or keep it."""
        if letter := self._awaiting(arrived.source(self._rank), arrived.tag):
            self._match(letter, arrived)
        else:
            self._arrived.append(arrived)

    def cleared(self, peer: int, number: int) -> Letter | None:
        """Who has room for the body of an offer."""
        return self._cleared.get((peer, number))

    def through(self, peer: int, number: int) -> None:
        """Its body has come."""
        self.end(self._cleared.pop((peer, number)), source=peer)

    def withdraw(self, peer: int, number: int) -> None:
        """It never comes: who had room for it awaits the next one."""
        letter = self._cleared.pop((peer, number), None)
        if letter is not None and letter in self.under_way:
            self.receive(letter)

    def forget(self, wire: Wire) -> list[Letter]:
        """Nothing more comes over it: offers cannot be taken up, and these wait for one in vain."""
        self._arrived = [x for x in self._arrived if x.wire is not wire or isinstance(x.content, bytearray)]
        lost = [key for key in self._cleared if key[0] == wire.peer]
        return [self._cleared.pop(key) for key in lost]

    def _awaiting(self, source: int, tag: int) -> Letter | None:
        taken = set(self._cleared.values())
        for letter in self.under_way:
            if not letter.sends and letter.tag == tag and letter.peer in (None, source) and letter not in taken:
                return letter
        return None

    def _match(self, letter: Letter, arrived: Arrived) -> None:
        source = arrived.source(self._rank)
        fits = self._check(letter, source, arrived.size)
        if isinstance(arrived.content, bytearray):
            if fits:
                letter.room[:] = arrived.content
                self.end(letter, source=source)
        elif arrived.wire and not fits:
            arrived.wire.write(Header(Kind.REFUSED, letter.tag, arrived.content, len(letter.room)))
        elif arrived.wire:
            self._cleared[source, arrived.content] = letter
            arrived.wire.go_on(self._fetch(letter, arrived.wire, arrived.content, arrived.address))

    def _fetch(self, letter: Letter, wire: Wire, number: int, address: int) -> Talk[None]:
        """Read it where it is, or have it sent."""
        has_read = bool(wire.process and address)
        if has_read:
            size = len(letter.room)
            has_read = yield from wire.read_from(address, letter.address, size, lambda: letter.ended)
        wire.write(Header(Kind.READ if has_read else Kind.CLEAR, letter.tag, number, len(letter.room)))

    def _check(self, letter: Letter, source: int, size: int) -> bool:
        if size == len(letter.room):
            return True
        error = MismatchError(f"{letter}: rank {source} sends {size} bytes, and {len(letter.room)} are awaited")
        error.ranks = (source,)
        self.end(letter, error)
        return False
