"""What a schedule costs in the α-β-γ model, exactly.

A round costs its busiest rank α + max(bytes out, bytes in)·β + bytes reduced·γ, and the next one starts when all are
through. Ranks that a pattern declares alike are counted once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ..errors import ScheduleError
from ..schedule.arithmetic import where
from ..schedule.conditions import Bound
from ..schedule.ir import EVERY_BLOCK, Ints, Number, operations
from ..schedule.layout import EqualBlocks, Layout
from ..schedule.pattern import Pattern
from ..schedule.schedule import Schedule
from .ledger import Floats, Ledger
from .machine import DEFAULT, Machine

COUNT_ONE_BY_ONE = 256
"""Up to so many ranks, blocks that differ by an element are told apart; beyond, alike ranks send the mean of them."""

RANKS_AT_ONCE = 1 << 15
"""Arrays of so many ranks stay in the cache."""

CELLS_AT_ONCE = 1 << 20
"""So many operations of one kind and round are looked at together, where each rank may have p of them."""


@dataclass(frozen=True)
class Price:
    """The cost of a schedule. ``sent``, ``received`` and ``reduced`` are bytes per rank.

    ``wire`` and ``arithmetic`` are the bytes that have to be sent and reduced one after the other: β and γ times
    these, and α times ``rounds``, bound ``time`` from above, and equal it if one rank is busiest in all three.
    """

    schedule: Schedule
    nbytes: int
    machine: Machine
    time: float
    rounds: int
    wire: float
    arithmetic: float
    sent: Floats = field(repr=False)
    received: Floats = field(repr=False)
    reduced: Floats = field(repr=False)

    @property
    def bound(self) -> Bound:
        """The lower bounds of the collective."""
        return self.schedule.collective.bound(self.schedule.p, self.nbytes)

    @property
    def bound_time(self) -> float:
        """The time of an algorithm that would meet all lower bounds at once."""
        link = self.machine.link
        return self.bound.rounds * link.alpha + self.bound.bytes * link.beta + self.bound.reduced * self.machine.gamma

    @property
    def multiples(self) -> tuple[float, float, float]:
        """Rounds, bytes on the wire and bytes reduced, as multiples of their lower bounds (1 where nothing is due)."""
        paid = (self.rounds, self.wire, self.arithmetic)
        return tuple(a / b if b else 1.0 for a, b in zip(paid, self.bound, strict=True))  # type: ignore[return-value]


def price(schedule: Schedule, nbytes: int, machine: Machine = DEFAULT, layout: Layout | None = None) -> Price:
    """The cost of a schedule on ``nbytes`` bytes, cut into the given blocks or as the schedule has it."""
    machine.require_ranks(schedule.p)
    layout = layout or schedule.layout(nbytes)
    if layout.blocks != schedule.blocks:
        raise ScheduleError(f"{schedule.name} has {schedule.blocks} blocks here, the layout {layout.blocks}")
    phases = [_price_phase(schedule, phase, layout, machine) for phase in schedule.pattern.phases]
    return Price(
        schedule,
        nbytes,
        machine,
        time=sum(phase.time for phase in phases),
        rounds=sum(phase.rounds for phase in phases),
        wire=sum(phase.wire for phase in phases),
        arithmetic=sum(phase.arithmetic for phase in phases),
        sent=sum((phase.sent for phase in phases), np.zeros(schedule.p)),
        received=sum((phase.received for phase in phases), np.zeros(schedule.p)),
        reduced=sum((phase.reduced for phase in phases), np.zeros(schedule.p)),
    )


class _Kinds(NamedTuple):
    """The ranks to look at, which of them stands for each rank, and by how many rounds those it stands for differ."""

    ranks: Ints
    stands_for: Ints
    delay: Ints
    at_once: int


def _kinds(schedule: Schedule, phase: Pattern, layout: Layout, machine: Machine) -> _Kinds:
    every = np.arange(schedule.p)
    if phase.alike is None:
        return _Kinds(every, every, np.zeros_like(every), RANKS_AT_ONCE)
    if not (machine.uniform and interchangeable(layout, schedule.p)):
        return _Kinds(every, every, np.zeros_like(every), max(1, CELLS_AT_ONCE // schedule.p))
    label, delay = schedule.value(phase.alike, every)
    early_first = np.argsort(delay, kind="stable")
    _, first, stands_for = np.unique(label[early_first], return_index=True, return_inverse=True)
    longest_delay = np.zeros(len(first), int)
    np.maximum.at(longest_delay, stands_for, delay[early_first])
    return _Kinds(early_first[first], stands_for[np.argsort(early_first)], longest_delay, RANKS_AT_ONCE)


def _sizes(
    schedule: Schedule, phase: Pattern, layout: Layout, machine: Machine
) -> tuple[Callable[..., Number], Pattern, int]:
    """The bytes of a span, the pattern to look at, and how many segments, a round apart, go through it."""
    if not (machine.uniform and interchangeable(layout, schedule.p)):
        return layout.nbytes, phase, 1
    mean = layout.total / layout.blocks
    if phase.stage is None or phase.width is None:
        return (lambda first, count: where(count == EVERY_BLOCK, layout.blocks, count) * mean), phase, 1
    width = schedule.value(phase.width)
    return (lambda first, count: where(count == EVERY_BLOCK, width, count) * mean), phase.stage, layout.blocks // width


def interchangeable(layout: Layout, p: int) -> bool:
    """Is any run of blocks as good as another of the same count?"""
    return isinstance(layout, EqualBlocks) and (layout.exactly_equal or p > COUNT_ONE_BY_ONE)


class _Phase(NamedTuple):
    """The cost of a part of a schedule: in all, and per rank."""

    time: float
    rounds: int
    wire: float
    arithmetic: float
    sent: Floats
    received: Floats
    reduced: Floats


def _price_phase(schedule: Schedule, phase: Pattern, layout: Layout, machine: Machine) -> _Phase:
    kinds = _kinds(schedule, phase, layout, machine)
    per_rank = np.zeros((3, len(kinds.ranks)))
    size, pattern, segments = _sizes(schedule, phase, layout, machine)
    busiest: Floats | None = None
    for start in range(0, len(kinds.ranks), kinds.at_once):
        part = slice(start, start + kinds.at_once)
        ranks = kinds.ranks[part].reshape(-1, 1)
        ledgers = (Ledger.of(operations(yielded), ranks, size, machine) for yielded in schedule.rounds(ranks, pattern))
        of_rounds = [np.zeros((4, 0))]
        for ledger in Ledger.staggered(list(ledgers), segments) if segments > 1 else ledgers:
            per_rank[:, part] += ledger.per_rank()
            of_rounds.append(ledger.busiest(kinds.delay[part]))
        of_part = np.concatenate(of_rounds, axis=1)
        busiest = of_part if busiest is None else np.maximum(busiest, of_part)
    assert busiest is not None, "there is at least one rank"
    time, talks, wire, arithmetic = busiest.sum(axis=1)
    return _Phase(float(time), int(talks), float(wire), float(arithmetic), *per_rank[:, kinds.stands_for])
