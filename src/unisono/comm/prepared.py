"""Prepared calls: all that calls of one kind have in common, made once. A second one only brings its arrays."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._native import LinkPlan, SharedPlan
from ..errors import ConfigError
from ..interpret.lower import Area
from ..schedule.layout import EqualBlocks, Layout
from ..schedule.schedule import Schedule
from ..schedule.spelling import schedule_named
from ..trace.record import Kind
from ..tune.select import Selector, is_reproducible
from ..tune.stages import prefers_stages, window
from .arrays import Array
from .call import Call
from .plans import Arithmetic, OffsetOf, Sharing, Staging, make_plan
from .programs import Programs


class Shape(NamedTuple):
    """How the arrays of a call relate to its blocks: all of them, or this rank's part only."""

    layout: Layout
    part_in: bool = False
    part_out: bool = False


class Prepared(NamedTuple):
    """All that calls of one kind have in common."""

    kind: Kind
    nbytes: int
    plan: LinkPlan | SharedPlan
    fingerprint: int = 0  # of what the ranks have to agree on


class Preparation:
    """Prepares the calls of one rank."""

    def __init__(self, rank: int, size: int, sharing: Sharing | None, selector: Selector) -> None:
        self.rank, self.size, self._selector = rank, size, selector
        self.programs = Programs(rank, size)
        self._sharing = sharing

    def prepare(self, call: Call, source: Array, shape: Shape, *, in_place: bool) -> Prepared:
        arithmetic = self._arithmetic(call, source)
        layout = shape.layout
        nbytes = layout.total // self.size if call.collective == "alltoall" else layout.total
        schedule = self._schedule(call, nbytes, source.dtype)
        if schedule.shares is not None:
            layout = schedule.layout(layout.total, source.values.itemsize)
        elif layout.blocks != schedule.blocks:  # the algorithm cuts as it likes
            layout = EqualBlocks(layout.total, schedule.blocks, source.values.itemsize)
        fingerprint = call.fingerprint(schedule, layout, source.dtype)
        offset_of = offsets(call, layout, shape, self.size)
        kind = kind_of(call, schedule, source.dtype)
        if self._sharing is not None and (shared := self.programs.shared(schedule)):
            shared_plan = make_plan(
                shared.program,
                shared.native,
                layout,
                offset_of,
                self._sharing,
                staging=Staging(
                    prefers_stages(call.collective, self.size, nbytes), window(call.collective, self.size, nbytes)
                ),
                arithmetic=arithmetic,
                fingerprint=fingerprint,
            )
            if shared_plan is not None:
                return Prepared(kind, nbytes, shared_plan, fingerprint)
        ready = self.programs.of(schedule, in_place=in_place)
        sizes, ins, outs = (
            np.asarray(numbers).astype(np.uint64)
            for numbers in (
                layout.nbytes(ready.blocks, 1),
                offset_of(self.rank, Area.IN, ready.blocks),
                offset_of(self.rank, Area.OUT, ready.blocks),
            )
        )
        plan = LinkPlan(ready.native, sizes, ins, outs, *arithmetic, fingerprint)
        return Prepared(kind, nbytes, plan, fingerprint)

    def _arithmetic(self, call: Call, source: Array) -> Arithmetic:
        receives = call.collective != "reduce" or self.rank == call.root
        summands = self.rank + 1 if call.collective == "scan" else self.size
        return Arithmetic(
            source.code, call.operator(source), call.factor, summands if call.averages and receives else 1
        )

    def _schedule(self, call: Call, nbytes: int, dtype: str) -> Schedule:
        if call.algorithm is None:
            return self._selector.select(
                call.collective,
                self.size,
                nbytes,
                call.root,
                dtype=dtype,
                op=call.op if isinstance(call.op, str) else "sum",
                reproducible=call.reproducible,
            )
        if call.reproducible and not is_reproducible(call.collective, call.algorithm, self.size):
            raise ConfigError(
                f"{call.algorithm} does not reduce from rank 0 to the last one after the other, so it cannot be "
                "reproducible"
            )
        return schedule_named(call.collective, call.algorithm, self.size, call.root)


def kind_of(call: Call, schedule: Schedule, dtype: str) -> Kind:
    collective = schedule.collective
    op = (call.op if isinstance(call.op, str) else "premultiplied_sum") if collective.reduces else None
    if call.tag:
        op = f"{op}, for {call.tag}" if op else f"for {call.tag}"
    return Kind(call.collective, schedule.name, dtype, op, call.root if collective.rooted else None)


def offsets(call: Call, layout: Layout, shape: Shape, p: int) -> OffsetOf:
    """Where blocks start in the array of any rank."""
    if call.collective == "alltoall":
        return _alltoall_offsets(layout, p)
    is_part = {int(Area.IN): shape.part_in, int(Area.OUT): shape.part_out}
    return lambda rank, area, blocks: 0 * blocks if is_part[area] else layout.start(blocks)


def _alltoall_offsets(layout: Layout, p: int) -> OffsetOf:
    """Block s·p + d is the d-th of rank s's input and the s-th of rank d's output."""

    def offset_of(rank: int, area: int, blocks: Any) -> Any:
        if area == Area.IN:
            return np.where(blocks // p == rank, layout.start(blocks) - layout.start(rank * p), 0)
        to_rank = np.concatenate([[0], np.cumsum(layout.nbytes(np.arange(p) * p + rank, 1))])
        return np.where(blocks % p == rank, to_rank[blocks // p], 0)

    return offset_of
