"""The dependency engine."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING, Any

from .._native import EngineCore, Lane, Native, Variable
from ..comm.arguments import seconds, whole
from ..comm.communicator import Communicator
from ..comm.sites import PACKAGE
from ..errors import ConfigError, DeadlineExceeded
from . import exit
from .calls import Starter, tag_of
from .completion import Completion, begin
from .dependencies import Entry, Hold, Touch
from .graph import Graph
from .lanes import capacity_of
from .operation import Operation
from .report import Report, report
from .tags import Tags, named
from .timeline import write
from .words import Errors, late, late_on

MOST_THREADS = 64
COMMUNICATOR = "communicator"

Data = Any
"""A variable, or what is tagged with one."""


class Engine(EngineCore):
    """Runs operations in parallel as far as their variables allow: the result is that of running them one after the
    other in the order of their pushes.

    An operation reads, mutates or accumulates variables. Those that read a variable may run at once; those that
    accumulate run one at a time in any order; one that mutates it runs alone. At most ``threads`` run at a time,
    besides those that are asynchronous. ``log`` keeps when each of them ran, for `trace` and `report`.
    """

    def __init__(self, threads: int | None = None, *, log: bool = False) -> None:
        count = whole(os.cpu_count() or 1 if threads is None else threads, "threads")
        if not 1 <= count <= MOST_THREADS:
            raise ConfigError(f"threads={count}: an engine has from 1 to {MOST_THREADS}")
        self._errors = Errors()
        super().__init__(count, log, PACKAGE, self._errors)
        self.threads = count
        self._logs = log
        self._tags: Tags[Variable] = Tags()
        exit.stop_at_exit(self)

    if TYPE_CHECKING:

        def push(
            self,
            fn: Callable[..., Any] | Native,
            read: Sequence[Data] = (),
            mutate: Sequence[Data] = (),
            accumulate: Sequence[Data] = (),
            *,
            lane: Lane | Sequence[Lane] | None = None,
            bytes: int | None = None,
            priority: int = 0,
            name: str | None = None,
            asynchronous: bool = False,
        ) -> Operation:
            """Run fn when the variables allow it, and come back at once."""

        def push_all(
            self,
            tasks: Sequence[tuple[Any, ...]],
            *,
            lane: Lane | Sequence[Lane] | None = None,
            bytes: int | None = None,
            priority: int = 0,
            name: str | None = None,
        ) -> list[Operation]:
            """Push all of a list of tuples (fn, read, mutate, accumulate), in its order."""

    def push_async(
        self,
        start: Callable[[Completion], Any],
        read: Sequence[Data] = (),
        mutate: Sequence[Data] = (),
        accumulate: Sequence[Data] = (),
        *,
        name: str | None = None,
        **options: Any,
    ) -> Operation:
        """Call start(done), and have the operation be through when somebody calls ``done``, or when the future is that
        start returns. It holds no thread meanwhile."""
        if not callable(start):
            raise ConfigError(f"push_async needs a function to call, which takes done, not {start!r}")
        title = name or getattr(start, "__qualname__", type(start).__name__)
        body = partial(begin, start, f"operation {title}, pushed at {self.line()}")
        return self.push(body, read, mutate, accumulate, name=title, asynchronous=True, **options)

    def push_call(
        self,
        comm: Communicator,
        call: str,
        arguments: Sequence[Any],
        options: Mapping[str, Any],
        *uses: Sequence[Data],
        name: str | None = None,
        **push: Any,
    ) -> Operation:
        """Push a call of a communicator, as ``comm.allreduce_async(x, engine=engine)`` does."""
        read, mutate, accumulate = ([self.variable_of(data) for data in each] for each in uses)
        start = Starter(comm, call, arguments, options, tag_of(call, name, (read, mutate, accumulate)))
        order = [*mutate, self.tag(comm, COMMUNICATOR)]
        return self.push(start, read, order, accumulate, name=name or call, asynchronous=True, **push)

    def variable(self, name: str = "") -> Variable:
        """Something for operations to read and write. Collectives compare the names of theirs between ranks."""
        return self.make_variable(named(name))

    def tag(self, data: Any, name: str = "") -> Variable:
        """The variable that stands for this array, or whatever can be referred to weakly: made when first asked for.
        From then on ``read``, ``mutate``, ``accumulate`` and ``wait`` take the data itself."""
        self.require_here()
        return self._tags.get_or_make(data, partial(self.variable, name))

    def variable_of(self, data: Data) -> Variable:
        """Of what is tagged; a communicator always is."""
        if isinstance(data, Variable):
            return data
        known = self._tags.get(data)
        if known is not None:
            return known
        if isinstance(data, Communicator):
            return self.tag(data, COMMUNICATOR)
        raise ConfigError(f"this {type(data).__name__} is no variable, and not tagged with one: engine.tag(data)")

    def lane(self, name: str, *, width: int | None = None, bytes: int | None = None) -> Lane:
        """A resource that takes so many operations at once, or so many bytes of them."""
        return self.make_lane(named(name), capacity_of(width, bytes), bytes is not None)

    def wait(self, *data: Data | Operation, deadline: float | None = None) -> None:
        """Until all that was pushed on these is through, or these operations; without any, until all is.

        Raises what an operation raised that they depend on, with its traceback and the place of its push. Inside of an
        operation another thread runs others meanwhile; where it would wait for itself, it raises.
        """
        limit = None if deadline is None else seconds(deadline, or_none_at_all=True)
        until = None if limit is None else monotonic() + limit
        if not data:
            self._wait_for_all(limit)
        mark: Operation | None = None
        operations: list[Operation] = [thing for thing in data if isinstance(thing, Operation)]
        if variables := [self.variable_of(thing) for thing in data if not isinstance(thing, Operation)]:
            mark = self.mark(list(dict.fromkeys(variables)))
            operations.append(mark)
        for operation in operations:
            if not self.ends(operation, None if until is None else max(until - monotonic(), 0.0)):
                assert limit is not None, "only a deadline ends a wait"
                if operation is mark:
                    raise late_on([each.name for each in variables], mark.where, limit, self._first_on(variables, mark))
                raise late(f"{operation.name}, pushed at {operation.where}", limit)
            operation.wait()

    def _first_on(self, variables: Sequence[Variable], mark: Operation) -> Entry | None:
        """What is under way on these, and was pushed before that."""
        numbers = {variable.number for variable in variables}
        return next((
            entry for entry in self.graph().entries
            if entry.serial < mark.serial and any(touch.variable in numbers for touch in entry.touches)
        ), None)  # fmt: skip

    def _wait_for_all(self, limit: float | None) -> None:
        if not self.wait_until_idle(limit):
            first = next((f", first {name}, pushed at {where}" for _, name, where, *_ in self.live()), "")
            raise DeadlineExceeded(
                f"{self.outstanding} operations were not through after {limit:g} s{first}; they go on"
            )
        error: BaseException | None = self.take_failure()
        if error:
            raise error

    def restore(self, *data: Data) -> None:
        """After what was pushed so far, these variables are whole again: what is pushed from now on runs, though an
        operation failed that wrote them."""
        self.heal(list(dict.fromkeys(map(self.variable_of, data))))

    def graph(self) -> Graph:
        """What is under way, and what waits for what: ``print(engine.graph())`` is DOT, ``.svg()`` a picture."""
        return Graph.of([
            Entry(serial, name, where, tuple(Touch(*touch) for touch in touches), state)
            for serial, name, where, touches, state in self.live()
        ])  # fmt: skip

    def history(self) -> list[Entry]:
        """All operations of an engine that was made with ``log=True``, in the order of pushes."""
        if not self._logs:
            raise ConfigError("this engine keeps no log of what it ran: Engine(log=True)")
        return [
            Entry(
                serial, name, where, tuple(Touch(*touch) for touch in touches), _state(ready, begun, ended),
                pushed, ready, begun, ended, thread, failed, tuple(Hold(*hold) for hold in holds),
            )
            for serial, name, where, touches, pushed, ready, begun, ended, thread, failed, holds in self.log()
        ]  # fmt: skip

    def trace(self, path: str | Path) -> None:
        """Write what ran when, with dependencies as arrows, for Perfetto and chrome://tracing. Needs ``log=True``."""
        write(self.history(), path)

    def report(self) -> Report:
        """The critical path, and the parallelism that was achieved. Needs ``log=True``."""
        return report(self.history())

    def close(self, *, cancel: bool = False, deadline: float | None = None) -> None:
        """Wait for all, raise what failed and nobody waited for, and end the threads. With ``cancel``, what has not
        begun is not run; what is not through by the ``deadline`` is left behind."""
        limit = None if deadline is None else seconds(deadline, or_none_at_all=True)
        if self.closed or not self.is_here:
            return
        if self.inside():
            self.wait_until_idle(limit)  # which is refused
        if cancel:
            self.abandon()
        try:
            self._wait_for_all(limit)
        finally:
            self.shut(0.0 if self.outstanding else exit.SECONDS_TO_STOP)

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if error is None:
            self.close()
            return
        try:
            self.close(cancel=True)
        except Exception as other:  # the first one is what is raised
            error.add_note(f"besides, an operation of the engine failed: {other!r}")

    def __repr__(self) -> str:
        how = "of another process" if not self.is_here else "closed" if self.closed else f"{self.outstanding} under way"
        return f"<Engine of {self.threads} threads, {how}>"


def _state(ready: int, begun: int, ended: int) -> int:
    return 3 if ended else 2 if begun else 1 if ready else 0
