"""Who of a communicator's ranks is there, who is dead, and whether those who are there may go on without the rest."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass
class Census:
    """What one rank knows of the others. Sets only grow, except that who is met is not doubted any more."""

    rank: int
    size: int
    present: set[int] = field(default_factory=set)  # have come to this rank, and wait
    ended: set[int] = field(default_factory=set)  # the process has
    left: set[int] = field(default_factory=set)  # closed its communicator, or its connection broke
    buried: set[int] = field(default_factory=set)  # left, and nobody answers where it would be
    doubted: set[int] = field(default_factory=set)  # a failure named it as lost; it may be alive, and stopped
    met: set[int] = field(default_factory=set)  # in this assembly

    @property
    def members(self) -> list[int]:
        return sorted({self.rank, *self.present})

    @property
    def dead(self) -> set[int]:
        return self.ended | self.buried

    @property
    def absent(self) -> set[int]:
        """Are not here, and not known to be dead."""
        return set(range(self.size)) - {self.rank} - self.present - self.dead

    @property
    def awaited(self) -> set[int]:
        """Are expected to come."""
        return self.absent - self.doubted - (self.left - self.met)

    def doubt(self, ranks: Iterable[int]) -> None:
        self.doubted |= set(ranks) - self.met - {self.rank}

    def meet(self, rank: int) -> None:
        """It is alive, whatever was thought of it."""
        self.met.add(rank)
        self.doubted.discard(rank)
        self.buried.discard(rank)

    def lose_sight_of(self, rank: int) -> None:
        """It was there, and does not answer any more."""
        self.met.discard(rank)
        self.doubted.add(rank)

    def may_go_on(self) -> bool:
        """Can no other group be formed of the rest? Of those that are not dead, these have to be more than half, or the
        half with the lowest rank. One alone does not go on while another may be alive."""
        here, absent = len(self.members), self.absent
        if not absent:
            return True
        return here > 1 and (here > len(absent) or (here == len(absent) and self.members[0] < min(absent)))
