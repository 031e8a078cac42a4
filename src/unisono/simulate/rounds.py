"""The messages of a schedule, round after round, for as many ranks as memory has room for in one round.

Rounds in which everybody talks to the same peers about as many bytes as in the round before come once, with a number
of repetitions: a ring among 65,536 ranks has 8.6 billion messages, and two different rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..interpret.price import interchangeable
from ..schedule.ir import (
    COPY,
    EVERY_BLOCK,
    NOBODY,
    Do,
    Ints,
    Number,
    Operation,
    Put,
    Round,
    Rounds,
    Span,
    duration,
    operations,
    windowed,
)
from ..schedule.layout import Layout
from ..schedule.pattern import Pattern
from ..schedule.schedule import Schedule

Floats = NDArray[np.float64]
Size = Callable[[Number, Number], Number]
_Rows = tuple[Ints, Ints, Floats, NDArray[np.bool_]]
"""Of messages: their sources and targets, their bytes, and whether these are reduced."""

CELLS_AT_ONCE = 1 << 20
"""Rounds times ranks that are unrolled together."""

MOST_KINDS = 16
"""So many kinds of ranks are asked whether their rounds repeat."""


class Batch(NamedTuple):
    """All messages of a round, which is done ``repeat`` times. A row that has itself as target is a local reduction."""

    source: Ints
    target: Ints
    nbytes: Floats
    reduces: NDArray[np.bool_]
    repeat: int

    @property
    def messages(self) -> int:
        return len(self.source)


def batches(schedule: Schedule, layout: Layout) -> Iterator[Batch]:
    """The rounds of a schedule in their order."""
    alike = interchangeable(layout, schedule.p)
    size = _mean_size(layout) if alike else layout.nbytes
    for phase in schedule.pattern.phases:
        if phase.stage is not None and phase.width is not None:
            stages = [operations(round_) for round_, _ in _unrolled(schedule, phase.stage)]
            width = schedule.value(phase.width)
            kinds = _kinds_of_segments(layout, width, alike=alike)
            yield from _pipeline(schedule.p, stages, size, width, kinds)
        else:
            for round_, repeat in _unrolled(schedule, phase, size if alike else None):
                parts = (_rows(schedule.p, operation, size) for operation in operations(round_))
                yield _batch([part for part in parts if part is not None], repeat)


class Failure(NamedTuple):
    """A rank, and the round, from 0 on, that it never begins."""

    rank: int
    round: int


def split_at(rounds: Iterable[Batch], failure: Failure | None) -> Iterator[tuple[Batch, Failure | None]]:
    """The rounds, cut where a rank fails; the one in which it does comes with the failure."""
    at = 0
    for batch in rounds:
        if failure is None or not at <= failure.round < at + batch.repeat:
            yield batch, None
        else:
            before = failure.round - at
            if before:
                yield batch._replace(repeat=before), None
            yield batch._replace(repeat=batch.repeat - before), failure
        at += batch.repeat


def cells_of_a_round(schedule: Schedule) -> int:
    """How many messages a round could have at most: ranks times lanes. All of them are in memory at once."""
    ranks = np.unique([0, schedule.root, schedule.p - 1]).reshape(-1, 1)
    widest = 0
    for phase in schedule.pattern.phases:
        lanes = [
            sum(np.broadcast(*operation[:1], *operation.span[:2], ranks).shape[-1] for operation in operations(yielded))
            for yielded in windowed(schedule.rounds(ranks, phase.stage or phase), slice(0, 1))
        ]
        widest = max(widest, sum(lanes) if phase.stage else max(lanes, default=0))
    return schedule.p * widest


def _mean_size(layout: Layout) -> Size:
    """Beyond so many ranks, alike ones send the mean of blocks that differ by an element, as in `price`."""
    mean = layout.total / layout.blocks
    return lambda first, count: np.where(np.equal(count, EVERY_BLOCK), layout.blocks, count) * mean


def _unrolled(schedule: Schedule, phase: Pattern, size: Size | None = None) -> Iterator[tuple[Round, int]]:
    """Single rounds of all ranks, and how often each is done; 1 where blocks of one count differ in ``size``."""
    ranks = np.arange(schedule.p).reshape(-1, 1)
    kinds = _kinds(schedule, phase)
    some = np.zeros((1, 1), int) if kinds is None else kinds.reshape(-1, 1)
    probe = [
        (duration(operations(yielded)), kinds is not None and _is_steady(operations(yielded), size))
        for yielded in schedule.rounds(some, phase)
    ]
    if sum(1 for _ in windowed(schedule.rounds(some, phase), slice(0, 1))) != len(
        probe
    ):  # streams of unequal lengths side by side are not cut alike by a window
        for yielded in schedule.rounds(ranks, phase):
            for t in range(duration(operations(yielded))):
                yield _single(yielded, t), 1
        return
    heads = windowed(schedule.rounds(ranks, phase), slice(0, 1))
    for index, (length, steady) in enumerate(probe):
        head = next(heads)
        if length == 1 or (steady and length):
            yield _single(head, 0), length
            continue
        step = max(1, CELLS_AT_ONCE // schedule.p)
        for start in range(0, length, step):
            window = slice(start, min(start + step, length))
            yielded = _nth(windowed(schedule.rounds(ranks, phase), window), index)
            for t in range(window.stop - start):
                yield _single(yielded, t), 1


def _kinds(schedule: Schedule, phase: Pattern) -> Ints | None:
    """A rank of each kind, if the pattern says that there are few."""
    if phase.alike is None:
        return None
    label, _ = schedule.value(phase.alike, np.arange(schedule.p))
    first = np.unique(label, return_index=True)[1]
    return first if len(first) <= MOST_KINDS else None


def _is_steady(yielded: Sequence[Operation], size: Size | None) -> bool:
    """Have all rounds of a yield the same peers, and as many bytes?"""
    if size is None:
        return False
    for operation in yielded:
        if isinstance(operation, Put):
            continue
        turn = operation.when if isinstance(operation, Do) else operation[0]
        for field in (turn, size(operation.span.first, operation.span.count), operation.how):
            value = np.asarray(field)
            if value.ndim == 3 and (value != value[:1]).any():
                return False
    return True


def _nth(stream: Rounds, index: int) -> Round:
    for _ in range(index):
        next(stream)
    return next(stream)


def _single(yielded: Round, t: int) -> Round:
    """One of the rounds of a yield."""

    def at(field: Number) -> Number:
        value = np.asarray(field)
        return value[min(t, len(value) - 1)] if value.ndim == 3 else value

    return tuple(
        type(operation)(*(Span(*map(at, field)) if isinstance(field, Span) else at(field) for field in operation))
        for operation in operations(yielded)
    )


def _kinds_of_segments(layout: Layout, width: int, *, alike: bool) -> Ints:
    """A number for each segment, the same for those whose blocks have the same sizes."""
    segments = layout.blocks // width
    if alike:
        return np.zeros(segments, int)
    sizes = np.asarray(layout.nbytes(np.arange(segments * width), 1)).reshape(segments, width)
    return np.unique(sizes, axis=0, return_inverse=True)[1].reshape(-1)


def _pipeline(p: int, stages: list[tuple[Operation, ...]], size: Size, width: int, kinds: Ints) -> Iterator[Batch]:
    """Every stage for every segment, a segment a round behind the last; once all stages are busy with segments of one
    kind, rounds repeat."""
    segments = len(kinds)
    total = len(stages) + segments - 1 if stages else 0
    ends = np.append(np.flatnonzero(np.diff(kinds)) + 1, segments)

    @lru_cache
    def parts(stage: int, kind: int) -> list[_Rows]:
        sizes = _in_segment(size, int(first[kind]), width)
        return [part for operation in stages[stage] if (part := _rows(p, operation, sizes)) is not None]

    first = np.unique(kinds, return_index=True)[1]
    tau = 0
    while tau < total:
        oldest = tau - len(stages) + 1
        until = int(ends[np.searchsorted(ends, oldest, side="right")]) if oldest >= 0 else 0
        repeat = max(1, until - tau)
        active = range(max(0, tau - segments + 1), min(tau + 1, len(stages)))
        yield _batch([part for stage in active for part in parts(stage, int(kinds[tau - stage]))], repeat)
        tau += repeat


def _in_segment(size: Size, segment: int, width: int) -> Size:
    """The bytes of a run of blocks, cyclic within a segment."""

    def nbytes(first: Number, count: Number) -> Number:
        count = np.where(np.equal(count, EVERY_BLOCK), width, count)
        start = np.asarray(first) % width
        over = np.maximum(start + count - width, 0)
        base = segment * width
        return size(base + start, count - over) + size(base + 0 * start, over)

    return nbytes


def _batch(parts: list[_Rows], repeat: int) -> Batch:
    if not parts:
        return Batch(np.zeros(0, int), np.zeros(0, int), np.zeros(0), np.zeros(0, bool), repeat)
    source, target, nbytes, reduces = (
        column[0] if len(column) == 1 else np.concatenate(column) for column in zip(*parts, strict=True)
    )
    return Batch(source, target, nbytes, reduces, repeat)


def _rows(p: int, operation: Operation, size: Size) -> _Rows | None:
    """What arrives at every rank, or is reduced in it. Puts say the same once more."""
    if isinstance(operation, Put):
        return None
    ranks = np.arange(p).reshape(-1, 1)
    if isinstance(operation, Do):
        source, active = ranks, np.asarray(operation.when) & np.not_equal(operation.how, COPY)
    else:
        source, active = operation[0], np.not_equal(operation[0], NOBODY)
    if not np.any(active):
        return None
    nbytes = size(operation.span.first, operation.span.count)
    lanes = operation.span.first  # an operation has as many lanes as any of its fields
    grid = np.broadcast_arrays(active, source, ranks, nbytes, np.not_equal(operation.how, COPY), lanes)
    chosen = [column.reshape(-1) if grid[0].all() else column[grid[0]] for column in grid[1:-1]]
    return chosen[0], chosen[1], np.asarray(chosen[2], np.float64), chosen[3]
