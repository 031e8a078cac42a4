"""Is a schedule right? Every block that the collective promises holds each contribution once, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import ScheduleError
from ..schedule.conditions import Place
from ..schedule.ir import DATA, INPUT
from ..schedule.schedule import Table
from .replay import WORD, Problem, Replay, name_ranks


@dataclass(frozen=True)
class Verdict:
    """What is wrong with a schedule (nothing, if it is right), and whether it reduces in rank order."""

    problems: tuple[Problem, ...]
    in_rank_order: bool

    @property
    def right(self) -> bool:
        return not self.problems


def verify(table: Table) -> Verdict:
    """Check a schedule against its collective."""
    if problems := _malformed(table):
        return Verdict(tuple(problems), in_rank_order=False)
    replay = Replay(table)
    for _ in replay.rounds():
        pass
    wrong, ordered = _after(replay)
    return Verdict(tuple(dict.fromkeys(replay.fatal + wrong)), ordered)


def check(table: Table) -> None:
    """Raise a ScheduleError if the schedule is wrong."""
    if problems := verify(table).problems:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise ScheduleError(f"{table.collective.name} '{table.name}' on {table.p} ranks: {problems[0]}{more}")


def _malformed(table: Table) -> list[Problem]:
    """Rounds and peers that do not exist, spans that are too long, writes into the caller's input."""
    problems = []
    for kind, rows in (("put", table.puts), ("get", table.gets), ("move", table.moves)):
        peer = getattr(rows, "peer", rows.rank)
        faults = (
            ((rows.round < 0) | (rows.round >= table.rounds), "the round does not exist"),
            ((peer < 0) | (peer >= table.p), "the peer does not exist"),
            ((peer == rows.rank) & (kind != "move"), "a rank talks to itself"),
            ((rows.count < 1) | (rows.count > table.blocks), f"a span has 1 to {table.blocks} blocks"),
            ((rows.space == INPUT) & (kind != "put"), "the input is read-only"),
        )
        for where, text in faults:
            for i in np.flatnonzero(where):
                place = (int(rows.round[i]), int(rows.rank[i]), int(rows.first[i]))
                problems.append(Problem(f"malformed {kind}", *place, text))
    return problems


def _after(replay: Replay) -> tuple[list[Problem], bool]:
    """What the promised blocks lack, or have too much; and whether all were reduced in rank order."""
    table = replay.table
    rank, block = np.arange(table.p)[:, None], np.arange(table.blocks)
    place = Place(table.p, rank, block, table.root, table.workers)
    low, high = (np.broadcast_to(x, (table.p, table.blocks)).reshape(-1) for x in table.collective.after(place))
    cells = np.flatnonzero(low < high)
    value = replay.state[replay.cell(DATA, cells // table.blocks, cells % table.blocks)]
    expected = _interval_bits(low[cells], high[cells], value.held.shape[1])
    problems = [replay.problems[i - 1] for i in np.unique(value.spoilt[value.spoilt > 0])]
    for i in np.flatnonzero((value.held != expected).any(axis=1) & (value.spoilt == 0)):
        where = (int(replay.written[cells[i]]), int(cells[i] // table.blocks), int(cells[i] % table.blocks))
        if missing := name_ranks(expected[i] & ~value.held[i]):
            problems.append(Problem("lost", *where, f"lacks the contribution of {missing} in the end"))
        if surplus := name_ranks(value.held[i] & ~expected[i]):
            problems.append(Problem("misplaced", *where, f"has the contribution of {surplus}, which is not asked for"))
    return problems, bool(value.ordered.all())


def _interval_bits(low: NDArray[np.int64], high: NDArray[np.int64], words: int) -> NDArray[np.uint64]:
    """The sets {low, …, high - 1} as words of bits; there are few different ones."""
    intervals, which = np.unique(np.stack([low, high]), axis=1, return_inverse=True)
    position = np.arange(words * WORD)
    inside = (position >= intervals[0][:, None]) & (position < intervals[1][:, None])
    bits: NDArray[np.uint64] = np.packbits(inside, axis=1, bitorder="little").view(np.uint64)
    return bits[which]
