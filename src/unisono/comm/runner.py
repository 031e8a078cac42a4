"""Runs calls on arrays, one after the other."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from .._native import Executor, divide
from ..errors import ConfigError
from ..schedule.conditions import COLLECTIVES
from ..trace.record import Kind
from .alarm import Alarm
from .arrays import Array
from .call import Call, layout_key
from .flight import Flight
from .plans import Sharing
from .prepared import Label, Preparation, Prepared, Shape

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

    from ..trace.file import Track

MOST_PREPARED = 1024
T = TypeVar("T")


class Runner:
    """The calls of one rank. They run in the order in which they were made, in whatever thread that was."""

    def __init__(
        self,
        executor: Executor,
        rank: int,
        size: int,
        *,
        sharing: Sharing | None = None,
        alarm: Alarm | None = None,
        track: Track | None = None,
    ) -> None:
        self.rank, self.size = rank, size
        self.flight = Flight(executor.recorder())
        self.used: Counter[str] = Counter()
        self._executor: Executor | None = executor
        self._preparation = Preparation(rank, size, sharing)
        self._prepared: dict[tuple[Any, ...], Prepared] = {}
        self._alarm = alarm
        self._turn = threading.RLock()
        self._has_turn: int | None = None  # the thread whose calls run now
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

    def start(self, function: Callable[[], T]) -> Future[T]:
        """Run a function, which makes calls, after all that was started before."""
        site = self.flight.sites.caller(depth=3)

        def work() -> T:
            self._started_from = site
            return function()

        return self._submit(work)

    def run(self, call: Call, source: Array, target: Array, shape: Shape, deadline: float) -> None:
        """Run one call."""
        site = self._caller()
        self.in_turn(lambda: self._run(call, source, target, shape, deadline, site), call.collective)

    def exchange(self, x: Array | None, to: int | None, out: Array | None, source: int | None, deadline: float) -> None:
        """Send x to one rank and receive out from another; either may be left out."""
        site = self._caller()
        call = "sendrecv" if x and out else "send" if x else "recv"
        self.in_turn(lambda: self._exchange(x, to, out, source, deadline, call, site), call)

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
                return self._submit(lambda: self.in_turn(function, call)).result()
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

    def _submit(self, function: Callable[[], T]) -> Future[T]:
        with self._order:
            if self._pool is None:
                from concurrent.futures import ThreadPoolExecutor  # takes time to import, and not all need it

                self._pool = ThreadPoolExecutor(1, "unisono")
            future = self._last = self._pool.submit(self._work, function)
            return future

    def _work(self, function: Callable[[], T]) -> T:
        """In the thread of the pool, which must know nobody between the calls, so that a forgotten runner can go."""
        self._worker = threading.get_ident()
        return function()

    def _caller(self) -> int:
        if threading.get_ident() == self._worker:
            return self._started_from
        return self.flight.sites.caller(depth=5)  # above the collective, its _run, our run, this, and what it calls

    def _run(self, call: Call, source: Array, target: Array, shape: Shape, deadline: float, site: int) -> None:
        in_place = source.address == target.address and COLLECTIVES[call.collective].blocks is None
        if not in_place and shape.layout.total and np.may_share_memory(source.values, target.values):
            source = source._replace(values=source.values.copy())
        executor = self.executor
        key = (call, layout_key(shape.layout), shape.part_in, shape.part_out, source.dtype, in_place)
        if key not in self._prepared:
            if len(self._prepared) >= MOST_PREPARED:
                self._prepared.clear()
            self._prepared[key] = self._preparation.prepare(call, source, shape, in_place=in_place)
        ready = self._prepared[key]
        label = Label(self.flight.number_of(ready.kind), site, ready.nbytes)
        ready.run(executor, source, target, deadline, label)
        self.used[str(ready.kind)] += 1
        if self._track:
            self._track.count()
        is_receiver = call.collective != "reduce" or self.rank == call.root
        if call.averages and is_receiver and target.values.size:
            summands = self.rank + 1 if call.collective == "scan" else self.size
            divide(target.address, target.values.size, target.code, summands)

    def _exchange(
        self,
        x: Array | None,
        to: int | None,
        out: Array | None,
        source: int | None,
        deadline: float,
        name: str,
        site: int,
    ) -> None:
        sizes = np.array([x.values.nbytes if x else 0, out.values.nbytes if out else 0], np.uint64)
        array = x or out or _NOTHING
        label = Label(self.flight.number_of(Kind(name, dtype=array.dtype)), site, int(sizes.sum()))
        self.executor.run(
            self._preparation.programs.between(to, source),
            x.address if x else 0,
            out.address if out else 0,
            sizes,
            np.zeros(2, np.uint64),
            np.zeros(2, np.uint64),
            array.code,
            0,
            array.code,
            deadline,
            True,
            *label,
        )
        if self._track:
            self._track.count()


_NOTHING = Array(np.empty(0, np.uint8), "uint8", None)
