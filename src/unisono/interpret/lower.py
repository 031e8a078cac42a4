"""From a schedule to the program that the native executor runs for one rank.

The program is a list of sends, receives, local copies and reductions of single blocks, in order; each waits, byte by
byte, for the earlier ones that it conflicts with (read after write, write after read, write after write). Nothing else
is ordered: there are no rounds any more, and each instruction knows its own only to say where it stands. Blocks lie in
the caller's input or output or in scratch slots; sizes are not known here.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..schedule.conditions import Place
from ..schedule.ir import COPY, DATA, INPUT, REDUCE_AFTER, Do, Get, Ints, Operation, Put
from ..schedule.schedule import Schedule

Numbers = NDArray[np.int32]
Move = TypeVar("Move", Put, Get)


class Kind(IntEnum):
    """What an instruction does."""

    SEND = 0
    RECEIVE = 1
    LOCAL = 2
    FOLD = 3


class Area(IntEnum):
    """Where a block lies."""

    IN = 0
    OUT = 1
    SLOT = 2
    SHELF = 3  # of ranks that share memory: see shelves.py


class Home(NamedTuple):
    """A place for a block: the caller's input or output, or a scratch slot."""

    area: int
    number: int


class Instruction(NamedTuple):
    """``target`` gets ``operand`` ∘ what arrives (or ``source``); a copy has no operand (-1), a send no target.

    A fold has a run of ``Program.operands`` instead: ``operand`` is the first of them, and how many.
    """

    kind: int
    peer: int
    how: int
    message: int
    block: int
    target: Home
    source: Home
    operand: Home


NOWHERE = Home(-1, -1)


@dataclass(frozen=True)
class Program:
    """What one rank does. Blocks are renumbered: ``blocks[i]`` is the schedule's number of block i."""

    rank: int
    blocks: Ints
    slots: Numbers  # the block that each scratch slot is made for
    instructions: Numbers  # a row per instruction, in the columns of Instruction with homes spread out
    operands: Numbers  # homes, a row each
    waits_for: Numbers  # row numbers, for all instructions one after the other
    waits_from: Numbers  # where each instruction's part of waits_for begins; one entry more than instructions
    round_of: Numbers  # the schedule's round of each instruction, from 0; it never falls
    rounds: int  # of the schedule


def lower(schedule: Schedule, rank: int, *, in_place: bool) -> Program:
    """The program of one rank. In place, the caller's input and output are the same memory."""
    lowering = _Lowering(schedule, rank, in_place)
    rounds = schedule.program(rank)
    if in_place:
        lowering.keep_input(rounds)
    for number, round_ in enumerate(rounds):
        lowering.enter(number, round_)
    lowering.finish()
    return lowering.program(len(rounds))


def promised(schedule: Schedule, rank: int) -> NDArray[np.bool_]:
    """Which blocks of DATA are the caller's."""
    blocks = np.arange(schedule.blocks)
    low, high = schedule.collective.after(Place(schedule.p, rank, blocks, schedule.root, schedule.workers))
    return np.broadcast_to(np.asarray(low) < np.asarray(high), blocks.shape)


@dataclass
class _Lowering:
    schedule: Schedule
    rank: int
    in_place: bool
    instructions: list[Instruction] = field(default_factory=list)
    waits: list[list[int]] = field(default_factory=list)
    numbers: dict[int, int] = field(default_factory=dict)  # block -> number in the program
    slots: list[int] = field(default_factory=list)
    homes: dict[tuple[int, int], Home] = field(default_factory=dict)  # (space, block) -> where it lies now
    writer: dict[Home, int] = field(default_factory=dict)
    readers: dict[Home, list[int]] = field(default_factory=lambda: defaultdict(list))
    operands: list[Home] = field(default_factory=list)
    round_of: list[int] = field(default_factory=list)
    round: int = 0
    messages: int = 0

    def keep_input(self, rounds: list[tuple[Operation, ...]]) -> None:
        """The input that is sent after the output overwrote it must survive: take a snapshot."""
        last_sent = {
            block: number
            for number, round_ in enumerate(rounds)
            for operation in round_
            if isinstance(operation, Put) and operation.span.space == INPUT
            for block in self._blocks(operation)
        }
        if not last_sent:
            return
        first_written = self._first_writes(rounds)
        for block, sent in last_sent.items():
            written = first_written.get(block, len(rounds))
            if sent < written or (sent == written and self._sends_single_blocks(rounds[sent])):
                continue
            snapshot = self._new_slot(block)
            self._add(Kind.LOCAL, block, target=snapshot, source=self._own(block))
            self.homes[INPUT, block] = snapshot

    def _first_writes(self, rounds: list[tuple[Operation, ...]]) -> dict[int, float]:
        """The round in which each block of DATA is written first; what is done locally comes before the messages."""
        written: dict[int, float] = {}
        for number, round_ in enumerate(rounds):
            for operation in round_:
                if not isinstance(operation, Put) and operation.span.space == DATA:
                    for block in self._blocks(operation):
                        when = number - 0.5 if isinstance(operation, Do) else number
                        written[block] = min(when, written.get(block, when))
        return written

    def _sends_single_blocks(self, round_: tuple[Operation, ...]) -> bool:
        """Then what arrives for a block may wait, byte by byte, until these bytes are sent.

        Of messages of several blocks, that could be a circle of ranks: each sends another block first.
        """
        blocks = Counter(
            (type(operation), int(operation[0]))
            for operation in round_
            if not isinstance(operation, Do)
            for _ in self._blocks(operation)
        )
        return max(blocks.values()) == 1

    def enter(self, number: int, round_: tuple[Operation, ...]) -> None:
        """Dos first, then Puts, then Gets, each pair of ranks' traffic as one message."""
        self.round = number
        for operation in round_:
            if isinstance(operation, Do):
                for block in self._blocks(operation):
                    source = self._home(int(operation.source), block)
                    self._write(Kind.LOCAL, -1, -1, int(operation.how), int(operation.span.space), block, source)
        for operation, peer, message in self._messages(round_, Put):
            for block in self._blocks(operation):
                source = self._home(int(operation.span.space), block)
                self._add(Kind.SEND, block, peer, message, source=source)
        gets = [
            (operation, peer, message, block)
            for operation, peer, message in self._messages(round_, Get)
            for block in self._blocks(operation)
        ]
        operands = Counter((int(get.span.space), block) for get, _, _, block in gets if get.how != COPY)
        folds: dict[tuple[int, int], list[Home]] = {}
        for get, peer, message, block in gets:
            space, how = int(get.span.space), int(get.how)
            if how == COPY or operands[space, block] == 1:
                self._write(Kind.RECEIVE, peer, message, how, space, block, NOWHERE)
                continue
            arrived = self._new_slot(block)
            self._add(Kind.RECEIVE, block, peer, message, target=arrived)
            fold = folds.setdefault((space, block), [self._home(space, block)])
            fold.insert(len(fold) if how == REDUCE_AFTER else 0, arrived)
        for (space, block), homes in folds.items():
            self._fold(space, block, homes)

    def finish(self) -> None:
        """What the caller is promised and nobody wrote is still in the input."""
        if not self.in_place:
            for block in np.flatnonzero(self.promised).tolist():
                if (DATA, block) not in self.homes:
                    self._add(Kind.LOCAL, block, target=self._home(DATA, block, writing=True), source=self._own(block))

    def program(self, rounds: int) -> Program:
        rows = [(*i[:5], *i.target, *i.source, *i.operand) for i in self.instructions]
        starts = np.cumsum([0, *map(len, self.waits)])
        return Program(
            self.rank,
            np.array(list(self.numbers), np.int64),
            np.array(self.slots, np.int32),
            np.array(rows, np.int32).reshape(-1, 11),
            np.array(self.operands, np.int32).reshape(-1, 2),
            np.array([w for waits in self.waits for w in waits], np.int32),
            starts.astype(np.int32),
            np.array(self.round_of, np.int32),
            rounds,
        )

    @cached_property
    def promised(self) -> NDArray[np.bool_]:
        return promised(self.schedule, self.rank)

    def _blocks(self, operation: Operation) -> list[int]:
        first, count, _ = operation.span
        return [(first + i) % self.schedule.blocks for i in range(count)]

    def _messages(self, round_: tuple[Operation, ...], kind: type[Move]) -> Iterator[tuple[Move, int, int]]:
        """The Puts or Gets of a round, with their peers and messages: what goes from a rank to another is one."""
        of_peer: dict[int, int] = {}
        for operation in round_:
            if isinstance(operation, kind):
                peer = int(operation[0])
                if peer not in of_peer:
                    of_peer[peer] = self.messages
                    self.messages += 1
                yield operation, peer, of_peer[peer]

    def _fold(self, space: int, block: int, homes: list[Home]) -> None:
        """Several operands that arrive in one round are reduced at once, from left to right."""
        run = Home(len(self.operands), len(homes))
        self.operands += homes
        self._add(Kind.FOLD, block, target=self._home(space, block, writing=True), operand=run, reads=set(homes))

    def _write(self, kind: Kind, peer: int, message: int, how: int, space: int, block: int, source: Home) -> None:
        operand = NOWHERE if how == COPY else self._home(space, block)
        target = self._home(space, block, writing=True)
        self._add(kind, block, peer, message, how, target, source, operand)

    def _add(
        self,
        kind: Kind,
        block: int,
        peer: int = -1,
        message: int = -1,
        how: int = int(COPY),
        target: Home = NOWHERE,
        source: Home = NOWHERE,
        operand: Home = NOWHERE,
        reads: set[Home] | None = None,
    ) -> None:
        index = len(self.instructions)
        read = {home for home in (source, operand) if home != NOWHERE} if reads is None else reads
        waits = {self.writer[home] for home in read | {target} if home in self.writer} | set(self.readers[target])
        for home in read:
            self.readers[home].append(index)
        if target != NOWHERE:
            self.writer[target] = index
            self.readers[target] = []
        self.instructions.append(Instruction(kind, peer, how, message, self._number(block), target, source, operand))
        self.waits.append(sorted(waits))
        self.round_of.append(self.round)

    def _home(self, space: int, block: int, *, writing: bool = False) -> Home:
        """Where a block is to be read, or written; a block of DATA that was never written is still the input's."""
        if (space, block) in self.homes:
            return self.homes[space, block]
        if not writing:
            return self._own(block)
        is_result = space == DATA and bool(self.promised[block])
        home = Home(Area.OUT, self._number(block)) if is_result else self._new_slot(block)
        self.homes[space, block] = home
        return home

    def _own(self, block: int) -> Home:
        """The rank's own contribution."""
        in_output = self.in_place and bool(self.promised[block])
        return Home(Area.OUT if in_output else Area.IN, self._number(block))

    def _new_slot(self, block: int) -> Home:
        self.slots.append(self._number(block))
        return Home(Area.SLOT, len(self.slots) - 1)

    def _number(self, block: int) -> int:
        return self.numbers.setdefault(block, len(self.numbers))
