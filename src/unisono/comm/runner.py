"""Runs calls on arrays, one after the other: prepares each kind of call once, then hands it to the executor."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from .._native import Executor, SharedPlan, divide
from .._native import Program as NativeProgram
from ..errors import ConfigError
from ..interpret.lower import Area
from ..schedule.catalog import find
from ..schedule.conditions import COLLECTIVES
from ..schedule.layout import EqualBlocks, Layout
from ..schedule.schedule import Schedule
from ..tune.select import is_reproducible, select
from .alarm import Alarm
from .arrays import Array
from .call import Call, layout_key
from .plans import OffsetOf, Sharing, make_plan
from .programs import Programs

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

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

    def __init__(
        self,
        executor: Executor,
        rank: int,
        size: int,
        sharing: Sharing | None = None,
        alarm: Alarm | None = None,
    ) -> None:
        self.rank, self.size = rank, size
        self._sharing = sharing
        self._alarm = alarm
        self.used: Counter[str] = Counter()
        self._executor: Executor | None = executor
        self._programs = Programs(rank, size)
        self._prepared: dict[tuple[Any, ...], Prepared] = {}
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
                from concurrent.futures import ThreadPoolExecutor  # takes time to import, and not all need it

                self._pool = ThreadPoolExecutor(1, "unisono")
            future = self._last = self._pool.submit(self._work, function)
            return future

    def run(self, call: Call, source: Array, target: Array, shape: Shape, deadline: float) -> None:
        """Run one call."""
        self.in_turn(lambda: self._run(call, source, target, shape, deadline), call.collective)

    def exchange(self, x: Array | None, to: int | None, out: Array | None, source: int | None, deadline: float) -> None:
        """Send x to one rank and receive out from another; either may be left out."""
        call = "sendrecv" if x and out else "send" if x else "recv"
        self.in_turn(lambda: self._exchange(x, to, out, source, deadline), call)

    def explain(self, error: BaseException, call: str) -> BaseException:
        """What to raise where a call ended with this error."""
        return self._alarm.explain(error, call) if self._alarm else error

    def in_turn(self, function: Callable[[], T], call: str) -> T:
        """Run a function, which makes calls, here and now, unless asynchronous ones are under way: then after them.

        No call of another thread comes in between. Who has the turn already goes on: to wait for the asynchronous
        calls, which wait for the turn, would never end.
        """
        if self._alarm and self._alarm.cause:
            raise self._alarm.cause
        try:
            last, me = self._last, threading.get_ident()
            if last is not None and not last.done() and me not in (self._worker, self._has_turn):
                return self.start(lambda: self.in_turn(function, call)).result()
            with self._turn:
                before, self._has_turn = self._has_turn, me
                try:
                    return function()
                finally:
                    self._has_turn = before
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
        in_place = source.address == target.address and COLLECTIVES[call.collective].blocks is None
        if not in_place and shape.layout.total and np.may_share_memory(source.values, target.values):
            source = source._replace(values=source.values.copy())
        key = (call, layout_key(shape.layout), shape.part_in, shape.part_out, source.dtype, in_place)
        executor = self.executor
        if key not in self._prepared:
            if len(self._prepared) >= MOST_PREPARED:
                self._prepared.clear()
            self._prepared[key] = self._prepare(call, source, shape, in_place)
        ready = self._prepared[key]
        ready.run(executor, source, target, deadline)
        self.used[ready.name] += 1
        is_receiver = call.collective != "reduce" or self.rank == call.root
        if call.averages and is_receiver and target.values.size:
            summands = self.rank + 1 if call.collective == "scan" else self.size
            divide(target.address, target.values.size, target.code, summands)

    def _prepare(self, call: Call, source: Array, shape: Shape, in_place: bool) -> Prepared:
        operator = call.operator(source)
        layout = shape.layout
        schedule = self._schedule(call, layout)
        if layout.blocks != schedule.blocks:  # the algorithm cuts as it likes
            layout = EqualBlocks(layout.total, schedule.blocks, source.values.itemsize)
        fingerprint = call.fingerprint(schedule, layout, source.dtype)
        name = f"{call.collective} {schedule.name}"
        offset_of = self._offsets(call, layout, shape)
        if self._sharing is not None and (shared := self._programs.shared(schedule)):
            plan = make_plan(
                shared.program,
                shared.native,
                layout,
                offset_of,
                self._sharing,
                nbytes=self._bytes_per_rank(call, layout),
                code=source.code,
                operator=operator,
                fingerprint=fingerprint,
            )
            if plan is not None:
                return PreparedShared(plan, name)
        ready = self._programs.of(schedule, in_place=in_place)
        sizes, ins, outs = (
            np.asarray(numbers).astype(np.uint64)
            for numbers in (
                layout.nbytes(ready.blocks, 1),
                offset_of(self.rank, Area.IN, ready.blocks),
                offset_of(self.rank, Area.OUT, ready.blocks),
            )
        )
        return PreparedStream(ready.native, sizes, ins, outs, operator, fingerprint, name)

    def _schedule(self, call: Call, layout: Layout) -> Schedule:
        if call.algorithm is not None:
            if call.reproducible and not is_reproducible(call.collective, call.algorithm, self.size):
                raise ConfigError(
                    f"{call.algorithm} does not reduce from rank 0 to the last one after the other, so it cannot be "
                    "reproducible"
                )
            return find(call.collective, call.algorithm).schedule(self.size, call.root)
        nbytes = self._bytes_per_rank(call, layout)
        return select(call.collective, self.size, nbytes, call.root, reproducible=call.reproducible)

    def _bytes_per_rank(self, call: Call, layout: Layout) -> int:
        return layout.total // self.size if call.collective == "alltoall" else layout.total

    def _offsets(self, call: Call, layout: Layout, shape: Shape) -> OffsetOf:
        """Where blocks start in the array of any rank."""
        if call.collective == "alltoall":
            return _AlltoallOffsets(self.size, layout)
        is_part = {int(Area.IN): shape.part_in, int(Area.OUT): shape.part_out}
        return lambda rank, area, blocks: 0 * blocks if is_part[area] else layout.start(blocks)


class _AlltoallOffsets:
    """Block s·p + d is the d-th of rank s's input and the s-th of rank d's output."""

    def __init__(self, p: int, layout: Layout) -> None:
        self.p, self.layout = p, layout

    def __call__(self, rank: int, area: int, blocks: Any) -> Any:
        p, layout = self.p, self.layout
        if area == Area.IN:
            return np.where(blocks // p == rank, layout.start(blocks) - layout.start(rank * p), 0)
        to_rank = np.concatenate([[0], np.cumsum(layout.nbytes(np.arange(p) * p + rank, 1))])
        return np.where(blocks % p == rank, to_rank[blocks // p], 0)


_NOTHING = Array(np.empty(0, np.uint8), "uint8", None)


class PreparedStream(NamedTuple):
    """All that a call over links needs besides arrays and a deadline: a second call of its kind finds it ready."""

    program: NativeProgram
    sizes: Offsets
    in_offsets: Offsets
    out_offsets: Offsets
    operator: int
    fingerprint: int
    name: str

    def run(self, executor: Executor, source: Array, target: Array, deadline: float) -> None:
        executor.run(
            self.program,
            source.address,
            target.address,
            self.sizes,
            self.in_offsets,
            self.out_offsets,
            source.code,
            self.operator,
            self.fingerprint,
            deadline,
        )


class PreparedShared(NamedTuple):
    """The same for a call in shared memory."""

    plan: SharedPlan
    name: str

    def run(self, executor: Executor, source: Array, target: Array, deadline: float) -> None:
        executor.run_shared(
            self.plan, source.address, source.values.nbytes, target.address, target.values.nbytes, deadline
        )


Prepared = PreparedStream | PreparedShared
