"""Runs calls on arrays, one after the other: prepares each kind of call once, then hands it to the executor."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._native import Executor, divide
from .._native import Program as NativeProgram
from ..errors import ConfigError
from ..schedule.catalog import find
from ..schedule.ir import Ints
from ..schedule.layout import EqualBlocks, Layout
from ..schedule.schedule import Schedule
from ..trace.file import Track
from ..trace.record import Kind
from ..tune.select import reduces_in_rank_order, select
from .arrays import Array
from .call import Call, layout_key
from .flight import Flight
from .programs import Programs

MOST_PREPARED = 1024
Offsets = NDArray[np.uint64]


class Shape(NamedTuple):
    """How the arrays of a call relate to its blocks: all of them, or this rank's part only."""

    layout: Layout
    part_in: bool = False
    part_out: bool = False


class Runner:
    """The calls of one rank. They run in the order in which they were made, in whatever thread that was."""

    def __init__(self, executor: Executor, rank: int, size: int, track: Track | None = None) -> None:
        self.rank, self.size = rank, size
        self.flight = Flight(executor.recorder())
        self.used: Counter[str] = Counter()
        self._executor: Executor | None = executor
        self._programs = Programs(rank, size)
        self._prepared: dict[tuple[Any, ...], _Prepared] = {}
        self._turn = threading.Lock()
        self._order = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None
        self._worker: int | None = None
        self._last: Future[Any] | None = None
        self._started_from = 0  # the line that started what the worker does
        self._track = track
        if track:
            track.follow(self.flight.calls_since)

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
            if self._track:
                self._track.close()

    def start(self, function: Callable[[], Any]) -> Future[Any]:
        """Run a function, which makes calls, after all that was started before."""
        site = self.flight.sites.caller(depth=3)

        def work() -> Any:
            self._started_from = site
            return function()

        return self._submit(work)

    def _submit(self, function: Callable[[], Any]) -> Future[Any]:
        with self._order:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(1, "unisono", initializer=self._know_worker)
            self._last = self._pool.submit(function)
            return self._last

    def run(self, call: Call, source: Array, target: Array, shape: Shape, deadline: float) -> None:
        """Run a call here and now, unless asynchronous ones are still under way: then after them."""
        site = self._caller()
        self._in_order(lambda: self._run(call, source, target, shape, deadline, site))

    def exchange(self, x: Array | None, to: int | None, out: Array | None, source: int | None, deadline: float) -> None:
        """Send x to one rank and receive out from another; either may be left out."""
        site = self._caller()
        self._in_order(lambda: self._exchange(x, to, out, source, deadline, site))

    def _in_order(self, function: Callable[[], None]) -> None:
        last = self._last
        if last is not None and not last.done() and threading.get_ident() != self._worker:
            self._submit(function).result()
        else:
            function()

    def _caller(self) -> int:
        if threading.get_ident() == self._worker:
            return self._started_from
        return self.flight.sites.caller(depth=5)  # above the collective, its _run, our run, this, and what it calls

    def _exchange(
        self, x: Array | None, to: int | None, out: Array | None, source: int | None, deadline: float, site: int
    ) -> None:
        sizes = np.array([x.values.nbytes if x else 0, out.values.nbytes if out else 0], np.uint64)
        code = (x or out or _NOTHING).code
        name = "send" if out is None else "recv" if x is None else "sendrecv"
        with self._turn:
            kind = self.flight.number_of(Kind(name, dtype=(x or out or _NOTHING).dtype))
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
                True,
                kind,
                site,
                int(sizes.sum()),
            )
            if self._track:
                self._track.count()

    def _know_worker(self) -> None:
        self._worker = threading.get_ident()

    def _run(self, call: Call, source: Array, target: Array, shape: Shape, deadline: float, site: int) -> None:
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
                False,
                ready.kind,
                site,
                ready.nbytes,
            )
            self.used[ready.name] += 1
            if self._track:
                self._track.count()
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
        collective = schedule.collective
        kind = Kind(
            call.collective,
            schedule.name,
            source.dtype,
            call.op_name if collective.reduces else None,
            call.root if collective.rooted else None,
        )
        number, nbytes = self.flight.number_of(kind), self._nbytes(call, layout)
        numbers = (_u64(sizes), _u64(ins), _u64(outs), operator, fingerprint)
        return _Prepared(ready.native, *numbers, str(kind), number, nbytes)

    def _schedule(self, call: Call, layout: Layout) -> Schedule:
        if call.algorithm is not None:
            if call.reproducible and not reduces_in_rank_order(call.collective, call.algorithm, self.size):
                raise ConfigError(f"{call.algorithm} does not reduce in rank order, so it cannot be reproducible")
            return find(call.collective, call.algorithm).schedule(self.size, call.root)
        if call.reproducible:
            return find(call.collective, "flat").schedule(self.size, call.root)
        return select(call.collective, self.size, self._nbytes(call, layout), call.root)

    def _nbytes(self, call: Call, layout: Layout) -> int:
        """Of the whole vector; of an alltoall, of what a rank hands in."""
        return layout.total // self.size if call.collective == "alltoall" else layout.total

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
    kind: int
    nbytes: int
