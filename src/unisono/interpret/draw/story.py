"""A schedule as a story: what every rank holds before, who sends what in each round, and what it holds then.

Text and SVG are both told from here. A story is cropped to what a picture can show; what was left out is counted.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...schedule.schedule import Table


class Crop(NamedTuple):
    """The first and the last of a long row: ``gap`` of the kept ones stand before the omission."""

    kept: list[int]
    gap: int
    left_out: int

    @classmethod
    def of(cls, total: int, most: int) -> Crop:
        if total <= most:
            return cls(list(range(total)), total, 0)
        tail = most // 4
        head = most - tail
        return cls([*range(head), *range(total - tail, total)], head, total - most)


class Limits(NamedTuple):
    """How much of a schedule a picture shows."""

    ranks: int
    blocks: int
    rounds: int
    messages: int


class Cell(NamedTuple):
    """A block of a rank: how many contributions it holds, of how many in the end."""

    block: int
    held: int
    whole: int
    lowest: int
    promised: bool
    done: bool
    spoilt: bool
    arrived: bool


class Grid(NamedTuple):
    """Ranks × blocks. ``own`` says that each rank has columns of its own, instead of one column per block."""

    rows: list[tuple[int, list[Cell]]]
    ranks: Crop
    columns: Crop
    own: bool


class Message(NamedTuple):
    """What one rank sends another in a round. ``borrowed`` means not from the result: from scratch or the input."""

    source: int
    target: int
    blocks: tuple[int, ...]
    reduces: bool
    borrowed: bool


class Frame(NamedTuple):
    """A round: some or all of its messages, and what the ranks hold after it."""

    round: int
    messages: list[Message]
    sent: int
    grid: Grid
    summed: int
    done: int


@dataclass(frozen=True)
class Story:
    """A schedule from before to after."""

    table: Table
    before: Grid
    after: Grid
    frames: list[Frame]
    rounds: Crop
    goal: int
    promised: int

    @property
    def title(self) -> str:
        return " · ".join(self.facts(self.table.collective.name, self.table.name or "schedule"))

    def facts(self, *first: str) -> list[str]:
        table = self.table
        facts = [*first, plural(table.p, "rank"), plural(table.blocks, "block"), plural(table.rounds, "round")]
        if table.collective.rooted:
            facts.append(f"root {table.root}")
        if table.workers < table.p:
            facts.append(f"only the first {table.workers} contribute")
        return facts

    def badge(self, frame: Frame) -> str:
        """How far a round got: "3 of 8 summed · 0 of 64 done"."""
        done = f"{frame.done:,} of {self.promised:,} "
        if not self.table.collective.reduces:
            return done + "in place"
        verb = "heard of" if self.table.collective.idempotent else "summed"
        return f"{frame.summed} of {self.goal} {verb} · {done}done"


def plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + "s" * (count != 1)


def name_blocks(blocks: Iterable[int], total: int, most: int = 3) -> str:
    """Blocks as runs: "b0-2,5"; "all" or "9 blocks" where that is shorter."""
    ordered = np.unique(np.fromiter(blocks, int))
    if len(ordered) == total > 1:
        return "all"
    runs = np.split(ordered, np.flatnonzero(np.diff(ordered) > 1) + 1)
    if len(runs) > most:
        return plural(len(ordered), "block")
    return "b" + ",".join(f"{run[0]}" if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
