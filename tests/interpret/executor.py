"""Run a schedule on real numbers, as p machines that share nothing would: the judge of what verify says.

It knows neither contributor sets nor rounds that all ranks go through together. A rank posts a round (its Dos run at
once), its Puts read memory at any moment until the receiver takes them, its Gets write at any moment after that, and
when all are done the rank goes on, however far behind the others are. Blocks have sizes of their own, so that a
block in another's place is a length error or wrong bytes; memory that nobody filled holds noise.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tests.interpret.reference import Job, wanted

from unisono.schedule.ir import COPY, DATA, INPUT, REDUCE_BEFORE
from unisono.schedule.schedule import Table

Values = NDArray[np.uint64]
Operation = Callable[[Values, Values], Values]
Cell = tuple[int, int]  # (space, block)


class Failure(Exception):
    """Why a run came to nothing."""


class Arrival(NamedTuple):
    """One block that a Get writes."""

    cell: Cell
    how: int


@dataclass
class Step:
    """What one rank does in one round."""

    moves: list[tuple[Cell, Cell, int]] = field(default_factory=list)
    puts: list[tuple[int, list[Cell]]] = field(default_factory=list)
    arrivals: list[Arrival] = field(default_factory=list)
    outgoing: dict[int, list[int]] = field(default_factory=dict)  # peer -> indices of puts
    incoming: dict[int, list[int]] = field(default_factory=dict)  # peer -> indices of arrivals
    follower: dict[int, int] = field(default_factory=dict)  # arrival -> the one that must wait for it

    def settle(self) -> None:
        """Several Gets on one cell apply in the listed order if all but the first reduce, otherwise in any."""
        by_cell: dict[Cell, list[int]] = {}
        for index, arrival in enumerate(self.arrivals):
            by_cell.setdefault(arrival.cell, []).append(index)
        for chain in by_cell.values():
            if all(self.arrivals[index].how != COPY for index in chain[1:]):
                self.follower |= dict(pairwise(chain))


class Plan:
    """A table, taken apart into the steps of each rank."""

    def __init__(self, table: Table) -> None:
        self.table = table
        parts = (table.puts, table.gets, table.moves)
        self.rounds = max(table.rounds, *(int(part.round.max(initial=-1)) + 1 for part in parts))
        self.steps = [[Step() for _ in range(self.rounds)] for _ in range(table.p)]
        for t, rank, peer, space, first, count, _ in _rows(table.puts):
            step = self.steps[rank][t]
            step.outgoing.setdefault(peer, []).append(len(step.puts))
            step.puts.append((peer, self._cells(space, first, count)))
        for t, rank, peer, space, first, count, how in _rows(table.gets):
            step = self.steps[rank][t]
            for cell in self._cells(space, first, count):
                step.incoming.setdefault(peer, []).append(len(step.arrivals))
                step.arrivals.append(Arrival(cell, how))
        for t, rank, space, first, count, source, how in _rows(table.moves):
            pairs = zip(self._cells(space, first, count), self._cells(source, first, count), strict=True)
            self.steps[rank][t].moves += [(to, origin, how) for to, origin in pairs]
        for steps in self.steps:
            for step in steps:
                step.settle()

    def _cells(self, space: int, first: int, count: int) -> list[Cell]:
        return [(space, (first + i) % self.table.blocks) for i in range(count)]


class Timing(NamedTuple):
    """When things happen: at random with ranks that drift apart, or round by round in one order or its reverse."""

    order: int = 0  # 1, -1, or 0 for random
    early: bool = False  # Puts read when they are posted, otherwise as late as possible (at random: in between)


EXTREMES = (Timing(1, early=True), Timing(1), Timing(-1))
POST, READ, APPLY, TRANSFER = range(4)


@dataclass
class Posted:
    """How far a rank is with its round."""

    step: Step
    waiting: int
    read: list[Values | None]
    arrived: dict[int, Values] = field(default_factory=dict)
    held_back: set[int] = field(default_factory=set)


class Run:
    """One run: sizes, inputs, noise and the order of events are drawn from the seed."""

    def __init__(self, plan: Plan, seed: int, timing: Timing, combine: Operation | None = None) -> None:
        self.plan, self.timing, self.table = plan, timing, plan.table
        self.rng, self.noise = Random(seed), np.random.default_rng(seed)
        blocks, p = self.table.blocks, self.table.p
        self.sizes = self.rng.sample(range(1, 2 * blocks + 3), blocks)
        self.job = self._job(combine)
        self.memory = [
            {(space, b): values for space in (DATA, INPUT) for b, values in enumerate(self.job.inputs[rank])}
            for rank in range(p)
        ]
        self.round = [-1] * p
        self.posted: list[Posted | None] = [None] * p
        self.slowness = [self.rng.choice((1, 1, 8)) for _ in range(p)]
        self.queue: list[tuple[Any, int, Callable[..., None], tuple[Any, ...]]] = []
        self.events = 0

    def outcome(self) -> str | None:
        """What went wrong, if anything did."""
        try:
            self._go()
        except Failure as failure:
            return str(failure)
        for rank in range(self.table.p):
            for block in range(self.table.blocks):
                right = wanted(self.table.collective.name, self.job, rank, block)
                if right is not None and not np.array_equal(self.memory[rank][DATA, block], right):
                    return f"wrong result: block {block} of rank {rank}"
        return None

    def _job(self, combine: Operation | None) -> Job:
        p, is_barrier = self.table.p, self.table.collective.name == "barrier"
        combine = combine or (np.bitwise_or if is_barrier else np.add)
        own = (
            (lambda rank, size: np.full(size, 1 << rank, np.uint64))
            if is_barrier
            else lambda _, size: self._noise(size)
        )
        inputs = [[own(rank, size) for size in self.sizes] for rank in range(p)]
        return Job(p, self.table.root, self.table.workers, combine, inputs)

    def _noise(self, size: int) -> Values:
        return self.noise.integers(0, 1 << 64, size, np.uint64)

    def _go(self) -> None:
        for rank in range(self.table.p):
            self._schedule(POST, rank, 0, self._post, rank)
        while self.queue:
            _, _, event, arguments = heapq.heappop(self.queue)
            event(*arguments)
        if stuck := [rank for rank, round_ in enumerate(self.round) if round_ < self.plan.rounds]:
            raise Failure(f"stuck: rank {stuck[0]} in round {self.round[stuck[0]]}")

    def _schedule(self, kind: int, rank: int, index: int, event: Callable[..., None], *arguments: Any) -> None:
        if self.timing.order:
            key: Any = (self.round[rank] + (kind == POST), kind, self.timing.order * index)
        else:
            key = self.rng.random() * self.slowness[rank]
        self.events += 1
        heapq.heappush(self.queue, (key, self.events, event, arguments))

    def _post(self, rank: int) -> None:
        """Enter the next round: run the Dos, offer the Puts, be ready for the Gets."""
        self.round[rank] += 1
        if self.round[rank] == self.plan.rounds:
            return
        step = self.plan.steps[rank][self.round[rank]]
        for to, origin, how in step.moves:
            self._write(rank, to, self._read(rank, origin), how)
        posted = Posted(step, len(step.outgoing) + len(step.arrivals), [None] * len(step.puts))
        posted.held_back = set(step.follower.values())
        self.posted[rank] = posted
        for index in range(len(step.puts)):
            if self.timing.early:
                self._take(posted, rank, index)
            elif not self.timing.order:
                self._schedule(READ, rank, index, self._take, posted, rank, index)
        for peer in sorted(step.outgoing):
            self._meet(rank, peer)
        for peer in sorted(step.incoming):
            self._meet(peer, rank)
        self._done(rank, 0)

    def _meet(self, source: int, to: int) -> None:
        """If both are in the same round, and one puts what the other gets, then the message may pass."""
        if not (0 <= source < self.table.p and 0 <= to < self.table.p) or self.round[source] != self.round[to]:
            return
        if source == to:
            raise Failure(f"rank {to} talks to itself")
        sender, receiver = self.posted[source], self.posted[to]
        if to in sender.step.outgoing and source in receiver.step.incoming:
            self._schedule(TRANSFER, to, source * self.table.p + to, self._transfer, source, to, sender, receiver)

    def _take(self, posted: Posted, rank: int, index: int) -> Values:
        if posted.read[index] is None:
            posted.read[index] = np.concatenate([self._read(rank, cell) for cell in posted.step.puts[index][1]])
        return posted.read[index]

    def _transfer(self, source: int, to: int, sender: Posted, receiver: Posted) -> None:
        """All that a pair exchanges in a round is one stream, which the receiver cuts as its Gets say."""
        stream = np.concatenate([self._take(sender, source, index) for index in sender.step.outgoing[to]])
        start = 0
        for index in receiver.step.incoming[source]:
            end = start + self.sizes[receiver.step.arrivals[index].cell[1]]
            receiver.arrived[index] = stream[start:end]
            start = end
            if index not in receiver.held_back:
                self._schedule(APPLY, to, index, self._apply, to, index)
        if start != len(stream):
            raise Failure(f"length: rank {source} puts {len(stream)} numbers to rank {to}, which gets {start}")
        self._done(source, 1)

    def _apply(self, rank: int, index: int) -> None:
        posted = self.posted[rank]
        cell, how = posted.step.arrivals[index]
        self._write(rank, cell, posted.arrived[index], how)
        if (follower := posted.step.follower.get(index)) is not None:
            posted.held_back.discard(follower)
            if follower in posted.arrived:
                self._schedule(APPLY, rank, follower, self._apply, rank, follower)
        self._done(rank, 1)

    def _done(self, rank: int, count: int) -> None:
        self.posted[rank].waiting -= count
        if not self.posted[rank].waiting:
            self._schedule(POST, rank, 0, self._post, rank)

    def _read(self, rank: int, cell: Cell) -> Values:
        if cell not in self.memory[rank]:
            self.memory[rank][cell] = self._noise(self.sizes[cell[1]])
        return self.memory[rank][cell]

    def _write(self, rank: int, cell: Cell, values: Values, how: int) -> None:
        if cell[0] == INPUT:
            raise Failure(f"rank {rank} writes into its input")
        if how != COPY:
            present = self._read(rank, cell)
            operands = (values, present) if how == REDUCE_BEFORE else (present, values)
            values = self.job.combine(*operands)
        self.memory[rank][cell] = values


def harm(table: Table, seed: int, runs: int = 3, combine: Operation | None = None) -> str | None:
    """What goes wrong in one of the extreme or of ``runs`` random interleavings; None if nothing ever does."""
    plan = Plan(table)
    timings = (*EXTREMES, *(Timing() for _ in range(runs)))
    outcomes = (Run(plan, seed + i, timing, combine).outcome() for i, timing in enumerate(timings))
    return next((outcome for outcome in outcomes if outcome), None)


def _rows(part: NamedTuple) -> Iterator[tuple[int, ...]]:
    return zip(*(column.tolist() for column in part), strict=True)
