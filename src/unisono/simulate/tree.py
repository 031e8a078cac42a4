"""Fat trees, and hosts with several ranks: groups of ranks in groups, joined by links that they share.

A group of level l has ``uplinks[l]`` links up and as many down. A message climbs until its target is below it, and
takes in each group the link of the number ``target mod uplinks``: so messages to different targets spread, and all that
go to one target meet where they would have to anyway (Zahavi: D-mod-k routing).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from ..schedule.ir import Ints
from .topology import Floats, Group, Routes, Topology

UP, DOWN = 0, 1


@dataclass(frozen=True)
class Tree(Topology):
    """``dims`` from below: ranks of a leaf group, such groups of the next one, …; the whole has no links up.

    Links are numbered by level, then direction, then group, then number. ``rates`` are those of the links of each
    level, as multiples of that of a rank's port.
    """

    dims: tuple[int, ...]
    uplinks: tuple[int, ...]
    rates: tuple[float, ...]
    title: str
    levels: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.title

    @property
    def has_switches(self) -> bool:
        return True

    @property
    def groups(self) -> list[Group]:
        return [
            Group(f"{level} {way}", first, self._groups(index), self.uplinks[index])
            for index, level in enumerate(self.levels)
            for way, first in (("up", self._first(index, UP)), ("down", self._first(index, DOWN)))
        ]

    def relative_beta(self) -> Floats:
        counts = [2 * self._groups(level) * self.uplinks[level] for level in range(len(self.levels))]
        return np.repeat(1 / np.array(self.rates or (1.0,))[: len(counts)], counts)

    def link_name(self, link: int) -> str:
        for index, level in enumerate(self.levels):
            for way, sign in ((UP, "up"), (DOWN, "down")):
                place = link - self._first(index, way)
                if 0 <= place < self._groups(index) * self.uplinks[index]:
                    group, number = divmod(place, self.uplinks[index])
                    return f"{level} {group} {sign}" + (f" {number}" if self.uplinks[index] > 1 else "")
        raise IndexError(link)

    def hops(self, source: Ints, target: Ints) -> Ints:
        crossed = [self._group(level, source) != self._group(level, target) for level in range(len(self.levels))]
        return 2 * np.sum(crossed, axis=0, dtype=int) if crossed else np.zeros(len(source), int)

    def routes(self, source: Ints, target: Ints) -> Routes:
        hops = self.hops(source, target)
        offset = np.concatenate([[0], np.cumsum(hops)])
        link = np.empty(offset[-1], int)
        for level in range(len(self.levels)):
            crossing = np.flatnonzero(hops > 2 * level)
            link[offset[crossing] + level] = self._link(level, UP, source[crossing], target[crossing])
            link[offset[crossing + 1] - 1 - level] = self._link(level, DOWN, target[crossing], target[crossing])
        return Routes(offset, link)

    def load(self, source: Ints, target: Ints, amount: Floats) -> Floats:
        """A level at a time, without the routes."""
        loads = []
        for level in range(len(self.levels)):
            crossing = np.flatnonzero(self._group(level, source) != self._group(level, target))
            weights, to = amount[crossing], target[crossing]
            count = self._groups(level) * self.uplinks[level]
            for way, end in ((UP, source[crossing]), (DOWN, to)):
                place = self._link(level, way, end, to) - self._first(level, way)
                loads.append(np.bincount(place, weights, count))
        return np.concatenate(loads) if loads else np.zeros(0)

    def _link(self, level: int, way: int, rank: Ints, target: Ints) -> Ints:
        uplinks = self.uplinks[level]
        return self._first(level, way) + self._group(level, rank) * uplinks + target % uplinks

    def _group(self, level: int, rank: Ints) -> Ints:
        return rank // prod(self.dims[: level + 1])

    def _groups(self, level: int) -> int:
        return self.p // prod(self.dims[: level + 1])

    def _first(self, level: int, way: int) -> int:
        below = sum(2 * self._groups(i) * self.uplinks[i] for i in range(level))
        return below + way * self._groups(level) * self.uplinks[level]
