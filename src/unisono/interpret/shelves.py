"""Results for ranks that others cannot write to: left on a shelf by who has made them, and fetched from there.

A block that is pushed into the outputs of several ranks is written once for all of those whose outputs nobody else can
reach, instead of once into the stage of each. Who pushes, and who fetches, both know that when they make the call.
"""

from __future__ import annotations

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
    for combine in combining.steps:
        pushed = [home for home in combine.targets if _is_final(home, combine, combining)]
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


def _is_final(home: Home, combine: Combine, combining: Combining) -> bool:
    """Does this combine write a result into another rank's output, for nobody but its caller?"""
    others = home.rank != combine.rank and home.area == Area.OUT
    return others and combining.touched[combining.location(home)] == combine.number


def _fetch(shelf: Home, home: Home, combine: Combine) -> Combine:
    return Combine(home.rank, combine.block, [shelf], [home], -1, combine.last_round, combine.last_round)
