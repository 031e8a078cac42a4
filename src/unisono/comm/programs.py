"""Lowered programs, made once and kept: a call with another size, type or operator lowers nothing."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._native import Program as NativeProgram
from ..interpret.lower import NOWHERE, Area, Kind, lower
from ..schedule.ir import Ints
from ..schedule.schedule import Schedule


class Ready(NamedTuple):
    """A program in native form, and the schedule's numbers of its blocks."""

    native: NativeProgram
    blocks: Ints
    schedule: Schedule


class Programs:
    """The programs of one rank."""

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size = rank, size
        self._ready: dict[tuple[Any, ...], Ready] = {}
        self._pairs: dict[tuple[Any, ...], NativeProgram] = {}

    def of(self, schedule: Schedule, *, in_place: bool) -> Ready:
        parameters = tuple(sorted(schedule.parameters.items()))
        key = (schedule.collective.name, schedule.name, schedule.root, parameters, in_place)
        if key not in self._ready:
            self._ready[key] = self._make(schedule, in_place)
        return self._ready[key]

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
            self._pairs[key] = NativeProgram(self.rank, self.size, 2, none, instructions, none, waits_from)
        return self._pairs[key]

    def _make(self, schedule: Schedule, in_place: bool) -> Ready:
        program = lower(schedule, self.rank, in_place=in_place)
        native = NativeProgram(
            self.rank,
            self.size,
            len(program.blocks),
            np.ascontiguousarray(program.slots),
            np.ascontiguousarray(program.instructions),
            np.ascontiguousarray(program.waits_for),
            np.ascontiguousarray(program.waits_from),
        )
        return Ready(native, program.blocks, schedule)
