"""Runs calls on arrays, one after the other: prepares each kind of call once, then hands it to the executor."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from .._native import Executor, divide
from .._native import Program as NativeProgram
from ..errors import ConfigError
from ..schedule.catalog import find
from ..schedule.ir import Ints
from ..schedule.layout import EqualBlocks, Layout
from ..schedule.schedule import Schedule
from ..tune.select import reduces_in_rank_order, select
from .arrays import Array
from .call import Call, layout_key
from .programs import Programs

MOST_PREPARED = 1024
Offsets = NDArray[np.uint64]
T = TypeVar("T")


class Shape(NamedTuple):
    """How the arrays of a call relate to its blocks: all of them, or this rank's part only."""

    layout: Layout
    part_in: bool = False
    part_out: bool = False


class Runner:
    """The calls of one rank. They run in the order in which they were made, in whatever thread that was."""

    def __init__(self, executor: Executor, rank: int, size: int) -> None:
        self.rank, self.size = rank, size
        self.used: Counter[str] = Counter()
        self._executor: Executor | None = executor
        self._programs = Programs(rank, size)
        self._prepared: dict[tuple[Any, ...], _Prepared] = {}
        self._turn = threading.RLock()
        self._has_turn: int | None = None  # the thread whose calls run now
        self._order = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None
        self._worker: int | None = None
        self._last: Future[Any] | None = None

    @property
    def executor(self) -> Executor:
        if self._executor is None:
            raise ConfigError("this communicator is closed")
        return self._executor

    @property
    def closed(self) -> bool:
        return self._executor is None

    def close(self) -> None:
        """After the calls that are under way."""
        if self._pool is not None:
            self._pool.shutdown()
        with self._turn:
            self._executor = None

    def start(self, function: Callable[[], T]) -> Future[T]:
        """Run a function, which makes calls, after all that was started before."""
        with self._order:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(1, "unisono")
            future = self._last = self._pool.submit(self._work, function)
            return future

    def run(self, call: Call, source: Array, target: Array, shape: Shape, deadline: float) -> None:
        """Run one call."""
        self.in_turn(lambda: self._run(call, source, target, shape, deadline))

    def exchange(self, x: Array | None, to: int | None, out: Array | None, source: int | None, deadline: float) -> None:
        """Send x to one rank and receive out from another; either may be left out."""
        self.in_turn(lambda: self._exchange(x, to, out, source, deadline))

    def in_turn(self, function: Callable[[], T]) -> T:
        """Run a function, which makes calls, here and now, unless asynchronous ones are under way: then after them.

        No call of another thread comes in between. Who has the turn already goes on: to wait for the asynchronous
        calls, which wait for the turn, would never end.
        """
        last, me = self._last, threading.get_ident()
        if last is not None and not last.done() and me not in (self._worker, self._has_turn):
            return self.start(lambda: self.in_turn(function)).result()
        with self._turn:
            before, self._has_turn = self._has_turn, me
            try:
                return function()
            finally:
                self._has_turn = before

    def _exchange(
        self, x: Array | None, to: int | None, out: Array | None, source: int | None, deadline: float
    ) -> None:
        sizes = np.array([x.values.nbytes if x else 0, out.values.nbytes if out else 0], np.uint64)
        code = (x or out or _NOTHING).code
        self.executor.run(
            self._programs.between(to, source),
            x.address if x else 0,
            out.address if out else 0,
            sizes,
            np.zeros(2, np.uint64),
            np.zeros(2, np.uint64),
            code,
            0,
            code,
            deadline,
            pairwise=True,
        )

    def _work(self, function: Callable[[], T]) -> T:
        """In the thread of the pool, which must know nobody between the calls, so that a forgotten runner can go."""
        self._worker = threading.get_ident()
        return function()

    def _run(self, call: Call, source: Array, target: Array, shape: Shape, deadline: float) -> None:
        in_place = source.address == target.address and not (shape.part_in or shape.part_out)
        if not in_place and shape.layout.total and np.may_share_memory(source.values, target.values):
            source = source._replace(values=source.values.copy())
        key = (call, layout_key(shape.layout), shape.part_in, shape.part_out, source.dtype, in_place)
        executor = self.executor
        if key not in self._prepared:
            if len(self._prepared) >= MOST_PREPARED:
                self._prepared.clear()
            self._prepared[key] = self._prepare(call, source, shape, in_place)
        ready = self._prepared[key]
        executor.run(
            ready.program,
            source.address,
            target.address,
            ready.sizes,
            ready.in_offsets,
            ready.out_offsets,
            source.code,
            ready.operator,
            ready.fingerprint,
            deadline,
        )
        self.used[ready.name] += 1
        is_receiver = call.collective != "reduce" or self.rank == call.root
        if call.averages and is_receiver and target.values.size:
            summands = self.rank + 1 if call.collective == "scan" else self.size
            divide(target.address, target.values.size, target.code, summands)

    def _prepare(self, call: Call, source: Array, shape: Shape, in_place: bool) -> _Prepared:
        operator = call.operator(source)
        layout = shape.layout
        schedule = self._schedule(call, layout)
        if layout.blocks != schedule.blocks:  # the algorithm cuts as it likes
            layout = EqualBlocks(layout.total, schedule.blocks, source.values.itemsize)
        ready = self._programs.of(schedule, in_place=in_place)
        sizes, starts = layout.nbytes(ready.blocks, 1), layout.start(ready.blocks)
        ins, outs = 0 * starts if shape.part_in else starts, 0 * starts if shape.part_out else starts
        if call.collective == "alltoall":
            ins, outs = self._alltoall_offsets(ready.blocks, layout)
        fingerprint = call.fingerprint(schedule, layout, source.dtype)
        name = f"{call.collective} {schedule.name}"
        return _Prepared(ready.native, _u64(sizes), _u64(ins), _u64(outs), operator, fingerprint, name)

    def _schedule(self, call: Call, layout: Layout) -> Schedule:
        if call.algorithm is not None:
            if call.reproducible and not reduces_in_rank_order(call.collective, call.algorithm, self.size):
                raise ConfigError(f"{call.algorithm} does not reduce in rank order, so it cannot be reproducible")
            return find(call.collective, call.algorithm).schedule(self.size, call.root)
        if call.reproducible:
            return find(call.collective, "flat").schedule(self.size, call.root)
        nbytes = layout.total // self.size if call.collective == "alltoall" else layout.total
        return select(call.collective, self.size, nbytes, call.root)

    def _alltoall_offsets(self, blocks: Ints, layout: Layout) -> tuple[Any, Any]:
        """Block s·p + d is the d-th of rank s's input and the s-th of rank d's output."""
        p, rank = self.size, self.rank
        to_here = np.concatenate([[0], np.cumsum(layout.nbytes(np.arange(p) * p + rank, 1))])
        is_own, is_result = blocks // p == rank, blocks % p == rank
        ins = np.where(is_own, layout.start(blocks) - layout.start(rank * p), 0)
        return ins, np.where(is_result, to_here[blocks // p], 0)


_NOTHING = Array(np.empty(0, np.uint8), "uint8", None)


def _u64(numbers: Any) -> Offsets:
    return np.asarray(numbers).astype(np.uint64)


class _Prepared(NamedTuple):
    """All that a call needs besides addresses and a deadline: a second call of the same kind finds it ready."""

    program: NativeProgram
    sizes: Offsets
    in_offsets: Offsets
    out_offsets: Offsets
    operator: int
    fingerprint: int
    name: str
