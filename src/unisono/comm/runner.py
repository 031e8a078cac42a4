"""Runs calls on arrays, one after the other: prepares each kind of call once, then hands it to the executor."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

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
from .alarm import Alarm
from .arrays import Array
from .call import Call, layout_key
from .programs import Programs

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

MOST_PREPARED = 1024
Offsets = NDArray[np.uint64]


class Shape(NamedTuple):
    """How the arrays of a call relate to its blocks: all of them, or this rank's part only."""

    layout: Layout
    part_in: bool = False
    part_out: bool = False


class Runner:
    """The calls of one rank. They run in the order in which they were made, in whatever thread that was."""

    def __init__(
        self,
        executor: Executor,
        rank: int,
        size: int,
        alarm: Alarm | None = None,
    ) -> None:
        self.rank, self.size = rank, size
        self._alarm = alarm
        self.used: Counter[str] = Counter()
        self._executor: Executor | None = executor
        self._programs = Programs(rank, size)
        self._prepared: dict[tuple[Any, ...], _Prepared] = {}
        self._turn = threading.Lock()
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

    def start(self, function: Callable[[], Any]) -> Future[Any]:
        """Run a function, which makes calls, after all that was started before."""
        with self._order:
            if self._pool is None:
                from concurrent.futures import ThreadPoolExecutor  # takes time to import, and not all need it

                self._pool = ThreadPoolExecutor(1, "unisono", initializer=self._know_worker)
            self._last = self._pool.submit(function)
            return self._last

    def run(self, call: Call, source: Array, target: Array, shape: Shape, deadline: float) -> None:
        """Run a call here and now, unless asynchronous ones are still under way: then after them."""
        self._in_order(lambda: self._run(call, source, target, shape, deadline), call.collective)

    def exchange(self, x: Array | None, to: int | None, out: Array | None, source: int | None, deadline: float) -> None:
        """Send x to one rank and receive out from another; either may be left out."""
        call = "sendrecv" if x and out else "send" if x else "recv"
        self._in_order(lambda: self._exchange(x, to, out, source, deadline), call)

    def explain(self, error: BaseException, call: str) -> BaseException:
        """What to raise where a call ended with this error."""
        return self._alarm.explain(error, call) if self._alarm else error

    def _in_order(self, function: Callable[[], None], call: str) -> None:
        last = self._last
        if self._alarm and self._alarm.cause:
            raise self._alarm.cause
        try:
            if last is not None and not last.done() and threading.get_ident() != self._worker:
                self.start(function).result()
            else:
                function()
        except BaseException as error:
            cause = self.explain(error, call)
            if cause is error:
                raise
            raise cause from None

    def _exchange(
        self, x: Array | None, to: int | None, out: Array | None, source: int | None, deadline: float
    ) -> None:
        sizes = np.array([x.values.nbytes if x else 0, out.values.nbytes if out else 0], np.uint64)
        code = (x or out or _NOTHING).code
        with self._turn:
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

    def _know_worker(self) -> None:
        self._worker = threading.get_ident()

    def _run(self, call: Call, source: Array, target: Array, shape: Shape, deadline: float) -> None:
        in_place = source.address == target.address and not (shape.part_in or shape.part_out)
        if not in_place and shape.layout.total and np.may_share_memory(source.values, target.values):
            source = source._replace(values=source.values.copy())
        key = (call, layout_key(shape.layout), shape.part_in, shape.part_out, source.dtype, in_place)
        with self._turn:
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
                divide(target.address, target.values.size, target.code, self.size)

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
