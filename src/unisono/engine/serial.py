"""The engine that everybody understands: one operation after the other, in the order of pushes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Any

from ..comm.arguments import seconds, whole
from ..comm.communicator import Communicator
from ..comm.sites import Sites
from ..errors import ConfigError
from .completion import Completion, begin
from .dependencies import ACCUMULATE, MUTATE, READ, Entry
from .graph import Graph
from .lanes import capacity_of
from .report import Report, report
from .serial_order import Body, Order
from .serial_parts import Mark, SerialLane, SerialOperation, SerialVariable, Token, Wait
from .tags import Tags, named
from .timeline import write
from .words import late, late_on, of_task

COMMUNICATOR = "communicator"


class SerialEngine:
    """The interface of `Engine`; an operation is through when its push returns, unless it is asynchronous, was pushed
    inside of another or behind an asynchronous one. The oracle of the tests."""

    def __init__(self, threads: int | None = None, *, log: bool = False) -> None:
        self.threads, self.closed = 1, False
        self._variables = itertools.count(1)
        self._sites = Sites()
        self._tags: Tags[SerialVariable] = Tags()
        self._order = Order()
        self._log: list[SerialOperation] | None = [] if log else None

    def push(
        self,
        fn: Callable[..., Any],
        read: Sequence[Any] = (),
        mutate: Sequence[Any] = (),
        accumulate: Sequence[Any] = (),
        *,
        lane: SerialLane | Sequence[SerialLane] | None = None,
        bytes: int | None = None,
        priority: int = 0,
        name: str | None = None,
        asynchronous: bool = False,
    ) -> SerialOperation:
        """Run fn."""
        if self.closed:
            raise ConfigError("this engine is closed: nothing more can be pushed")
        if not callable(fn):
            raise ConfigError("push needs a function to run, which takes no arguments; functools.partial binds them")
        named(name or "")
        whole(priority, "priority")
        uses, demands = self._uses(read, mutate, accumulate), self._demands(lane, bytes)
        title = name or str(getattr(fn, "__qualname__", type(fn).__name__))
        body: Body = partial(_start if asynchronous else _call, fn)
        operation = SerialOperation(self._order, title, self._line(2), uses, demands)
        if self._log is not None:
            self._log.append(operation)
        return self._order.add(operation, body)

    def push_all(self, tasks: Sequence[tuple[Any, ...]], **options: Any) -> list[SerialOperation]:
        """Push all of a list of tuples (fn, read, mutate, accumulate), in its order."""
        if not isinstance(tasks, Sequence):
            raise ConfigError("push_all takes one list, of tuples (fn, read, mutate, accumulate)")
        operations = []
        for number, task in enumerate(tasks):
            try:
                if not isinstance(task, tuple):
                    raise ConfigError("push_all takes a list of tuples (fn, read, mutate, accumulate)")
                operations.append(self.push(*task, **options))
            except ConfigError as error:
                raise of_task(error, number, len(tasks)) from None
        return operations

    def push_async(
        self,
        start: Callable[[Completion], Any],
        read: Sequence[Any] = (),
        mutate: Sequence[Any] = (),
        accumulate: Sequence[Any] = (),
        *,
        name: str | None = None,
        **options: Any,
    ) -> SerialOperation:
        """Call start(done); the operation is through when somebody calls ``done``."""
        if not callable(start):
            raise ConfigError(f"push_async needs a function to call, which takes done, not {start!r}")
        title = name or getattr(start, "__qualname__", type(start).__name__)
        body = partial(begin, start, f"operation {title}, pushed at {self._line(2)}")
        return self.push(body, read, mutate, accumulate, name=title, asynchronous=True, **options)

    def push_call(
        self,
        comm: Any,
        call: str,
        arguments: Sequence[Any],
        options: Mapping[str, Any],
        *uses: Sequence[Any],
        name: str | None = None,
        **push: Any,
    ) -> SerialOperation:
        """Make a call of a communicator."""
        read, mutate, accumulate = uses
        body = partial(getattr(comm, call), *arguments, **options)
        return self.push(body, read, [*mutate, comm], accumulate, name=name or call, **push)

    def variable(self, name: str = "") -> SerialVariable:
        """Something for operations to read and write."""
        number = next(self._variables)
        return SerialVariable(named(name) or f"v{number}", number, bool(name), self)

    def tag(self, data: Any, name: str = "") -> SerialVariable:
        """The variable that stands for this data."""
        return self._tags.get_or_make(data, partial(self.variable, name))

    def variable_of(self, data: Any) -> SerialVariable:
        """Of what is tagged; a communicator always is."""
        known = data if isinstance(data, SerialVariable) else self._tags.get(data)
        if known is not None:
            return known
        if isinstance(data, Communicator):
            return self.tag(data, COMMUNICATOR)
        raise ConfigError(f"this {type(data).__name__} is no variable, and not tagged with one: engine.tag(data)")

    def lane(self, name: str, *, width: int | None = None, bytes: int | None = None) -> SerialLane:
        """A resource."""
        return SerialLane(named(name), capacity_of(width, bytes), bytes is not None, self)

    def wait(self, *data: Any, deadline: float | None = None) -> None:
        """Raise what failed of these; without any, what failed first and nobody was told of."""
        limit = None if deadline is None else seconds(deadline, or_none_at_all=True)
        until = None if limit is None else monotonic() + limit
        if not data:
            self._order.end_of_all(limit)
        mark: Wait | None = None
        operations = [thing for thing in data if isinstance(thing, SerialOperation)]
        if variables := [self._own(thing) for thing in data if not isinstance(thing, SerialOperation)]:
            mark = Wait(self._order, "wait", self._line(2), dict.fromkeys(variables, MUTATE), {})
            operations.append(self._order.add(mark, _call_nothing))
        for operation in operations:
            if not self._order.end_of(operation, None if until is None else max(until - monotonic(), 0.0)):
                assert limit is not None, "only a deadline ends a wait"
                if operation is mark:
                    first = next((each.entry for each in self._order.live() if mark.comes_after(each)), None)
                    raise late_on([each.name for each in variables], mark.where, limit, first)
                raise late(f"{operation.name}, pushed at {operation.where}", limit)
            operation.wait()

    def restore(self, *data: Any) -> None:
        """After what was pushed so far, these variables are whole again."""
        self._order.heal(Mark(self._order, "restore", self._line(2), self._uses((), data, ()), {}))

    @property
    def outstanding(self) -> int:
        """How many operations are not through."""
        return len(self._order.live())

    def graph(self) -> Graph:
        """What is under way, and what waits for what."""
        return Graph.of([each.entry for each in self._order.live() if not isinstance(each, Mark)])

    def history(self) -> list[Entry]:
        """All operations of an engine that was made with ``log=True``, in the order of pushes."""
        if self._log is None:
            raise ConfigError("this engine keeps no log of what it ran: SerialEngine(log=True)")
        return sorted(operation.entry for operation in self._log)

    def trace(self, path: str | Path) -> None:
        """Write what ran when, for Perfetto and chrome://tracing. Needs ``log=True``."""
        write(self.history(), path)

    def report(self) -> Report:
        """The critical path, and the parallelism that there could have been. Needs ``log=True``."""
        return report(self.history())

    def close(self, *, cancel: bool = False, deadline: float | None = None) -> None:
        """Wait for all, raise what failed and nobody was told of; run nothing more."""
        limit = None if deadline is None else seconds(deadline, or_none_at_all=True)
        if self.closed:
            return
        if cancel:
            for operation in self._order.live():
                operation.cancel()
        try:
            self._order.end_of_all(limit)
        finally:
            self.closed = True

    def __enter__(self) -> SerialEngine:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if error is None:
            self.close()
            return
        try:
            self.close(cancel=True)
        except Exception as other:  # the first one is what is raised
            error.add_note(f"besides, an operation of the engine failed: {other!r}")

    def _line(self, depth: int) -> str:
        return self._sites.name(self._sites.caller(1 + depth))

    def _own(self, data: Any) -> SerialVariable:
        variable = self.variable_of(data)
        if variable.engine is not self:
            raise ConfigError(f"variable {variable.name} belongs to another engine")
        return variable

    def _uses(self, *lists: Sequence[Any]) -> dict[SerialVariable, int]:
        uses: dict[SerialVariable, int] = {}
        for mode, given in zip((READ, MUTATE, ACCUMULATE), lists, strict=True):
            if isinstance(given, SerialVariable):
                raise ConfigError("read, mutate and accumulate are lists of variables, not one: [v]")
            if not isinstance(given, Iterable):
                raise ConfigError("read, mutate and accumulate are lists of variables")
            for variable in map(self._own, given):
                if variable.deleted:
                    raise ConfigError(f"variable {variable.name} was deleted; make another one: engine.variable()")
                uses[variable] = mode if uses.get(variable, mode) == mode else MUTATE
        return uses

    def _demands(self, given: SerialLane | Sequence[SerialLane] | None, bytes: int | None) -> dict[SerialLane, int]:
        demands: dict[SerialLane, int] = {}
        if given is None and bytes is not None:
            raise ConfigError("bytes= is for a lane, which is not given")
        for lane in () if given is None else given if isinstance(given, list | tuple) else (given,):
            if not isinstance(lane, SerialLane):
                raise ConfigError("lane is what engine.lane() made, or a list of such")
            if lane.engine is not self:
                raise ConfigError(f"lane {lane.name} belongs to another engine; each has its own: engine.lane()")
            if lane.counts_bytes and bytes is None:
                raise ConfigError(f"lane {lane.name} counts bytes: say how many, as bytes=")
            amount = whole(bytes, "bytes") if lane.counts_bytes else 1
            if amount < 0:
                raise ConfigError("bytes is a whole number from 0 up")
            if amount > lane.capacity:
                raise ConfigError(f"{amount} bytes never fit into lane {lane.name} of {lane.capacity}")
            if lane in demands:
                raise ConfigError(f"lane {lane.name} was given twice")
            demands[lane] = amount
        return demands


def _call(fn: Callable[[], Any], operation: SerialOperation) -> None:
    operation.complete(fn())


def _call_nothing(operation: SerialOperation) -> None:
    operation.complete(None)


def _start(fn: Callable[[Token], Any], operation: SerialOperation) -> None:
    fn(Token(operation))
