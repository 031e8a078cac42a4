"""Lowered programs, made once and kept: a call with another size, type or operator lowers nothing."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._native import Program as NativeProgram
from .._native import SharedProgram as NativeSharedProgram
from ..interpret.lower import NOWHERE, Area, Kind, lower
from ..interpret.share import SharedProgram, share
from ..schedule.ir import Ints
from ..schedule.schedule import Schedule
from ..tune.select import MOST_MESSAGES


class Ready(NamedTuple):
    """A program in native form, and the schedule's numbers of its blocks."""

    native: NativeProgram
    blocks: Ints


class ReadyShared(NamedTuple):
    """A program for shared memory, and its native form."""

    program: SharedProgram
    native: NativeSharedProgram


class Programs:
    """The programs of one rank."""

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size = rank, size
        self._ready: dict[tuple[Any, ...], Ready] = {}
        self._shared: dict[tuple[Any, ...], ReadyShared | None] = {}
        self._pairs: dict[tuple[Any, ...], NativeProgram] = {}

    def of(self, schedule: Schedule, *, in_place: bool) -> Ready:
        """For links."""
        key = (*_key(schedule), in_place)
        if key not in self._ready:
            self._ready[key] = self._make(schedule, in_place)
        return self._ready[key]

    def shared(self, schedule: Schedule) -> ReadyShared | None:
        """For memory that all ranks share; None for what is too large."""
        key = _key(schedule)
        if key not in self._shared:
            self._shared[key] = self._make_shared(schedule)
        return self._shared[key]

    def between(self, to: int | None, source: int | None) -> NativeProgram:
        """Block 0 of the input to one rank, block 1 of the output from another (or the same)."""
        key = ("between", to, source)
        if key not in self._pairs:
            rows: list[tuple[int, ...]] = (
                [] if to is None else [(Kind.SEND, to, 0, 0, 0, *NOWHERE, Area.IN, 0, *NOWHERE)]
            )
            rows += [] if source is None else [(Kind.RECEIVE, source, 0, 1, 1, Area.OUT, 1, *NOWHERE, *NOWHERE)]
            none = np.zeros(0, np.int32)
            instructions = np.array(rows, np.int32).reshape(-1, 11)
            waits_from = np.zeros(len(rows) + 1, np.int32)
            self._pairs[key] = NativeProgram(
                self.rank,
                self.size,
                2,
                none,
                instructions,
                none.reshape(-1, 2),
                none,
                waits_from,
                np.zeros(len(rows), np.int32),
                1,
            )
        return self._pairs[key]

    def _make(self, schedule: Schedule, in_place: bool) -> Ready:
        program = lower(schedule, self.rank, in_place=in_place)
        native = NativeProgram(
            self.rank,
            self.size,
            len(program.blocks),
            np.ascontiguousarray(program.slots),
            np.ascontiguousarray(program.instructions),
            program.operands,
            np.ascontiguousarray(program.waits_for),
            np.ascontiguousarray(program.waits_from),
            program.round_of,
            program.rounds,
        )
        return Ready(native, program.blocks)

    def _make_shared(self, schedule: Schedule) -> ReadyShared | None:
        if schedule.table.puts.count.sum() > MOST_MESSAGES:
            return None
        program = share(schedule, self.rank)
        native = NativeSharedProgram(
            self.rank,
            self.size,
            len(program.blocks),
            program.steps,
            program.places,
            program.rows,
            program.references,
            program.round_of,
            program.rounds,
        )
        return ReadyShared(program, native)


def _key(schedule: Schedule) -> tuple[Any, ...]:
    parameters = tuple(sorted(schedule.parameters.items()))
    return schedule.collective.name, schedule.name, schedule.root, parameters
