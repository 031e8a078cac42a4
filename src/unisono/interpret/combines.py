"""From a schedule to what is combined into where, by ranks that can use each other's memory.

A reduction is done by the rank that receives, with all operands of a round at once; a copy by the rank that sends,
along with the combine that made the block. Where one rank only sends and the other only receives, the one that has
less to do copies, or both in turn. A block that is read and written in one round is kept in a slot first.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..schedule.ir import COPY, DATA, INPUT, REDUCE_AFTER, Do, Get, Operation, Put
from ..schedule.schedule import Schedule
from .lower import Area, promised


class Home(NamedTuple):
    """Memory for a block: some rank's input, output, or one of its slots in the memory that it shares."""

    rank: int
    area: int
    number: int  # of the block, or of the slot


@dataclass
class Combine:
    """``sources[0]`` ∘ ``sources[1]`` ∘ … goes to all targets; the rank that does it may own none of them."""

    rank: int
    block: int
    sources: list[Home]
    targets: list[Home]
    number: int  # in the order of the whole schedule
    first_round: int  # of the schedule, of what it does
    last_round: int


Cell = tuple[int, int, int]
"""Rank, space and block."""


class Combining:
    """Goes through a schedule round by round and collects what is combined, in an order that would be right."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.in_place = schedule.collective.blocks is None or schedule.collective.name == "barrier"
        self.steps: list[Combine] = []
        self.round = 0
        self.rounds = 0
        self.homes: dict[tuple[int, int, int], Home] = {}  # (rank, space, block) -> where it lies now
        self.slots: list[list[int]] = [[] for _ in range(schedule.p)]
        self.holder: dict[Home, Combine] = {}  # the last step that had a block's present value in its hands
        self.touched: dict[tuple[int, int, int], int] = {}  # location -> the last step that read or wrote it
        self.promised = [promised(schedule, rank) for rank in range(schedule.p)]
        self.sends = [0] * schedule.p  # blocks that are copied from this rank
        self.receives = [0] * schedule.p  # and to it
        self.keeps = [0] * schedule.p  # and from its input to its output

    def run(self) -> None:
        programs = [self.schedule.program(rank) for rank in range(self.schedule.p)]
        self.rounds = len(programs[0])
        self.count_copies(programs)
        if self.in_place:
            self.keep_inputs(programs)
        for number, round_ in enumerate(zip(*programs, strict=True)):
            self.round = number
            self.enter(round_)
        self.finish()
        self.keep_no_more_than_is_read()

    def count_copies(self, programs: list[list[tuple[Operation, ...]]]) -> None:
        for rank, rounds in enumerate(programs):
            got: set[int] = set()
            for operation in (operation for round_ in rounds for operation in round_):
                if isinstance(operation, Get):
                    got.update(self.blocks(operation))
                if isinstance(operation, Get) and operation.how == COPY:
                    self.receives[rank] += int(operation.span.count)
                    self.sends[int(operation.source)] += int(operation.span.count)
            if not self.in_place:
                self.keeps[rank] = len(set(np.flatnonzero(self.promised[rank]).tolist()) - got)

    def location(self, home: Home) -> tuple[int, int, int]:
        """What two homes have in common if writing to one changes the other."""
        if self.in_place and home.area == Area.IN:
            return home.rank, int(Area.OUT), home.number
        return home.rank, home.area, home.number

    def keep_inputs(self, programs: list[list[tuple[Operation, ...]]]) -> None:
        """Input that is asked for by name after the output has been written has to be kept."""
        for rank, rounds in enumerate(programs):
            written: set[int] = set()
            kept: set[int] = set()
            for round_ in rounds:
                written.update(b for o in round_ if isinstance(o, Get) and o.span.space == DATA for b in self.blocks(o))
                for operation in round_:
                    space = operation.source if isinstance(operation, Do) else operation.span.space
                    if space == INPUT and not isinstance(operation, Get):
                        kept.update(b for b in self.blocks(operation) if b in written and self.promised[rank][b])
                written.update(b for o in round_ if isinstance(o, Do) and o.span.space == DATA for b in self.blocks(o))
            for block in sorted(kept):
                self.homes[rank, INPUT, block] = self.snapshot(rank, block, Home(rank, Area.IN, block))

    def enter(self, round_: tuple[tuple[Operation, ...], ...]) -> None:
        for rank, operations in enumerate(round_):
            for operation in operations:
                if isinstance(operation, Do):
                    for block in self.blocks(operation):
                        self.do(rank, operation, block)
        arriving = self.transfers(round_)
        own = {key: self.home(*key) for key in arriving}
        written = {self.location(self.target(rank, space, block)) for rank, space, block in arriving}
        kept: dict[Home, Home] = {}
        for (rank, space, block), gets in arriving.items():
            sources = []
            for home, how in gets:
                if self.location(home) in written:
                    home = kept.setdefault(home, kept.get(home) or self.snapshot(home.rank, block, home))
                sources.append((home, how))
            arriving[rank, space, block] = sources
        for (rank, space, block), gets in arriving.items():
            self.receive(rank, space, block, own[rank, space, block], gets)

    def receive(self, rank: int, space: int, block: int, own: Home, gets: list[tuple[Home, int]]) -> None:
        target = self.target(rank, space, block)
        self.homes[rank, space, block] = target
        operands = [own]
        for home, how in gets:
            if how == COPY:
                self.copy(block, home, target)
                operands = [target]
            elif how == REDUCE_AFTER:
                operands.append(home)
            else:
                operands.insert(0, home)
        if len(operands) > 1:
            self.add(rank, block, operands, target)

    def do(self, rank: int, operation: Do, block: int) -> None:
        source = self.home(rank, int(operation.source), block)
        space = int(operation.span.space)
        operand = self.home(rank, space, block)
        target = self.target(rank, space, block)
        self.homes[rank, space, block] = target
        if operation.how == COPY:
            if source != target:
                self.add(rank, block, [source], target)
        else:
            self.add(rank, block, [operand, source] if operation.how == REDUCE_AFTER else [source, operand], target)

    def finish(self) -> None:
        """What the caller is promised and nobody wrote is still in the input."""
        for rank in range(self.schedule.p):
            for block in np.flatnonzero(self.promised[rank]).tolist():
                if (rank, DATA, block) not in self.homes:
                    self.push(block, Home(rank, Area.IN, block), Home(rank, Area.OUT, block))

    def keep_no_more_than_is_read(self) -> None:
        """A block that was passed on by who made it, and is read by nobody else, needs no slot."""
        read = {home for step in self.steps for home in step.sources}
        for step in self.steps:
            kept = [home for home in step.targets if home.area != Area.SLOT or home in read]
            step.targets = kept or step.targets
        used = {home for step in self.steps for home in (*step.sources, *step.targets) if home.area == Area.SLOT}
        moved: dict[Home, Home] = {}
        for rank, blocks in enumerate(self.slots):
            numbers = sorted(home.number for home in used if home.rank == rank)
            moved |= {Home(rank, Area.SLOT, old): Home(rank, Area.SLOT, new) for new, old in enumerate(numbers)}
            self.slots[rank] = [blocks[number] for number in numbers]
        for step in self.steps:
            step.sources = [moved.get(home, home) for home in step.sources]
            step.targets = [moved.get(home, home) for home in step.targets]

    def copy(self, block: int, source: Home, target: Home) -> None:
        """From one rank to another."""
        sender, receiver = source.rank, target.rank
        one_way = not self.receives[sender] and not self.sends[receiver] and source.area == Area.IN
        more, less = self.sends[sender] + self.keeps[sender], self.receives[receiver] + self.keeps[receiver]
        if one_way and (more > less or (more == less and block % 2 == 0)):
            self.add(receiver, block, [source], target)
        else:
            self.push(block, source, target)

    def push(self, block: int, source: Home, target: Home) -> None:
        """A copy by its owner: along with the step that made the block, unless the target was used since then."""
        step = self.holder.get(source)
        if step is not None and step.rank == source.rank:
            last = self.touched.get(self.location(target), -1)
            if last <= step.number and target not in step.targets:
                step.targets.append(target)
                step.last_round = self.round
                self.note(step, [target])
                return
        self.add(source.rank, block, [source], target)

    def add(self, rank: int, block: int, sources: list[Home], target: Home) -> None:
        step = Combine(rank, block, list(sources), [target], len(self.steps), self.round, self.round)
        self.steps.append(step)
        for home in (*sources, target):
            location = self.location(home)
            self.touched[location] = step.number
        if len(sources) == 1:
            self.holder[sources[0]] = step
        self.note(step, [target])

    def note(self, step: Combine, targets: list[Home]) -> None:
        for target in targets:
            location = self.location(target)
            self.touched[location] = max(self.touched.get(location, -1), step.number)
            in_one_place = self.in_place and target.area == Area.OUT
            for home in (target, target._replace(area=Area.IN)) if in_one_place else (target,):
                if home in self.holder and self.holder[home] is not step:
                    del self.holder[home]
            self.holder[target] = step

    def snapshot(self, rank: int, block: int, home: Home) -> Home:
        slot = self.new_slot(rank, block)
        self.push(block, home, slot)
        return slot

    def transfers(self, round_: tuple[tuple[Operation, ...], ...]) -> dict[Cell, list[tuple[Home, int]]]:
        """For every block that arrives somewhere: from where, and how, in the listed order."""
        sent: dict[tuple[int, int], list[Home]] = defaultdict(list)
        for rank, operations in enumerate(round_):
            for operation in operations:
                if isinstance(operation, Put):
                    space = int(operation.span.space)
                    sent[rank, int(operation.to)] += [self.home(rank, space, b) for b in self.blocks(operation)]
        arriving: dict[tuple[int, int, int], list[tuple[Home, int]]] = defaultdict(list)
        taken: dict[tuple[int, int], int] = defaultdict(int)
        for rank, operations in enumerate(round_):
            for operation in operations:
                if isinstance(operation, Get):
                    pair = int(operation.source), rank
                    for block in self.blocks(operation):
                        home = sent[pair][taken[pair]]
                        taken[pair] += 1
                        arriving[rank, int(operation.span.space), block].append((home, int(operation.how)))
        return dict(arriving)

    def blocks(self, operation: Operation) -> list[int]:
        first, count, _ = operation.span
        return [(int(first) + i) % self.schedule.blocks for i in range(int(count))]

    def home(self, rank: int, space: int, block: int) -> Home:
        """Where a block is to be read; a block of DATA that was never written is still in the input."""
        return self.homes.get((rank, space, block)) or Home(rank, Area.IN, block)

    def target(self, rank: int, space: int, block: int) -> Home:
        """Where a block is to be written."""
        known = self.homes.get((rank, space, block))
        if known is not None:
            return known
        if space == DATA and self.promised[rank][block]:
            return Home(rank, Area.OUT, block)
        self.homes[rank, space, block] = made = self.new_slot(rank, block)
        return made

    def new_slot(self, rank: int, block: int) -> Home:
        self.slots[rank].append(block)
        return Home(rank, Area.SLOT, len(self.slots[rank]) - 1)

    def block_of(self, home: Home) -> int:
        return self.slots[home.rank][home.number] if home.area == Area.SLOT else home.number
