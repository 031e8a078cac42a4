"""Results for ranks that others cannot write to: left on a shelf by who has made them, and fetched from there.

A block that is pushed into the outputs of several ranks is written once for all of those whose outputs nobody else can
reach, instead of once into the stage of each. Who pushes, and who fetches, both know that when they make the call.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from .combines import Combine, Combining, Home
from .lower import Area


class Shelves(NamedTuple):
    """What ranks fetch, after all combines; and the block of each shelf, by rank."""

    fetches: list[Combine]
    blocks: list[list[int]]


def shelve(combining: Combining) -> Shelves:
    """Gives each combine that pushes results a shelf, as its last target."""
    shelves = Shelves([], [[] for _ in range(combining.schedule.p)])
    uses = Counter(home for combine in combining.steps for home in (*combine.sources, *combine.targets))
    for combine in combining.steps:
        others = [home for home in combine.targets if home.rank != combine.rank and home.area == Area.OUT]
        pushed = [home for home in others if uses[home] == 1]  # a result, for nobody but its caller
        if not pushed:
            continue
        on_shelf = shelves.blocks[combine.rank]
        shelf = Home(combine.rank, Area.SHELF, len(on_shelf))
        on_shelf.append(combine.block)
        combine.targets.append(shelf)
        shelves.fetches.extend(_fetch(shelf, home, combine) for home in pushed)
    p = combining.schedule.p
    shelves.fetches.sort(key=lambda fetch: (fetch.sources[0].rank - fetch.rank) % p)  # not all from one rank at a time
    return shelves


def _fetch(shelf: Home, home: Home, combine: Combine) -> Combine:
    return Combine(home.rank, combine.block, [shelf], [home], -1, combine.last_round, combine.last_round)
