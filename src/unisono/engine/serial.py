"""The engine that everybody understands: one operation after the other, in the order of pushes."""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass, field
from functools import partial
from time import monotonic
from types import TracebackType
from typing import Any

from ..comm.arguments import seconds, whole
from ..comm.sites import Sites
from ..errors import ConfigError
from . import words
from .completion import Completion, begin
from .tags import Tags

READ, MUTATE, ACCUMULATE = "read", "mutate", "accumulate"


@dataclass(frozen=True)
class Failure:
    """Of the operation with that place in the order of pushes."""

    serial: int
    error: BaseException


def _first(one: Failure | None, other: Failure | None) -> Failure | None:
    return min((failure for failure in (one, other) if failure), key=lambda failure: failure.serial, default=None)


@dataclass(eq=False)
class SerialVariable:
    """A variable is what it was left with: whole, or failed."""

    name: str
    engine: SerialEngine = field(repr=False)
    deleted: bool = False
    last_mode: str = MUTATE
    failure: Failure | None = None
    before_run: Failure | None = None  # those that accumulate do not see each other's

    def delete(self) -> None:
        """Nothing more can be pushed that uses it."""
        self.deleted = True

    def seen(self, mode: str) -> Failure | None:
        """What an operation finds that comes to it."""
        if mode == ACCUMULATE and self.last_mode != ACCUMULATE:
            self.before_run = self.failure
        self.last_mode = mode
        return self.before_run if mode == ACCUMULATE else self.failure


@dataclass(frozen=True)
class SerialLane:
    """There is always room for one."""

    name: str
    capacity: int
    counts_bytes: bool


class SerialOperation:
    """An operation, which has run unless it was pushed by another one that runs."""

    def __init__(self, name: str, serial: int, where: str, told: Callable[[Failure], object]) -> None:
        self.name, self.serial, self.where = name, serial, where
        self._told = told
        self._result: Any = None
        self._failure: Failure | None = None
        self._through = threading.Event()

    def done(self) -> bool:
        """Is it through, well or badly?"""
        return self._through.is_set()

    def cancel(self) -> bool:
        """Whether it was not too late, which it always is."""
        return False

    def exception(self) -> BaseException | None:
        """What `wait` would raise, if it is through."""
        if self._failure is None:
            return None
        self._told(self._failure)
        return self._failure.error

    def wait(self, deadline: float | None = None) -> Any:
        """The result; raises what the operation raised, or what it depends on."""
        if not self._through.wait(deadline):
            raise words.late(f"{self.name}, pushed at {self.where}", deadline or 0.0)
        if self._failure:
            self._told(self._failure)
            raise words.failed(self._failure.error)
        return self._result

    def complete(self, result: Any) -> bool:
        """For its completion callback: False if it was called before."""
        return self._end(None, result)

    def fail(self, error: BaseException, cancelled: bool = False) -> bool:
        """The same, with an exception."""
        place = f"operation {self.name}, pushed at {self.where}"
        return self._end(Failure(self.serial, words.cancelled(place) if cancelled else words.placed(error, place)))

    def skip(self, failure: Failure) -> None:
        """It is not run, because of what it depends on."""
        self._end(failure)

    def _end(self, failure: Failure | None, result: Any = None) -> bool:
        if self._through.is_set():
            return False
        self._failure, self._result = failure, result
        self._through.set()
        return True

    @property
    def failure(self) -> Failure | None:
        return self._failure


class _Token:
    """Of an asynchronous operation: tells of its end, also if it is dropped."""

    def __init__(self, operation: SerialOperation) -> None:
        self.operation = operation

    def complete(self, result: Any) -> bool:
        return self.operation.complete(result)

    def fail(self, error: BaseException, cancelled: bool = False) -> bool:
        return self.operation.fail(error, cancelled)

    def __del__(self) -> None:
        self.operation.fail(words.dropped())


class SerialEngine:
    """The interface of `Engine`; every operation is through when its push returns. One that is pushed inside of another
    comes after it. The oracle of the tests."""

    def __init__(self, threads: int | None = None, *, log: bool = False) -> None:
        self.threads, self.closed = 1, False
        self._numbers = itertools.count(1)
        self._variables = itertools.count(1)
        self._sites = Sites()
        self._tags: Tags[SerialVariable] = Tags()
        self._waiting: deque[Callable[[], None]] = deque()
        self._is_running = False
        self._untold: dict[int, Failure] = {}

    def push(
        self,
        fn: Callable[[], Any],
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
        uses = self._uses(read, mutate, accumulate)
        title = name or str(getattr(fn, "__qualname__", type(fn).__name__))
        operation = SerialOperation(title, next(self._numbers), self._sites.name(self._sites.caller(2)), self._tell)
        self._waiting.append(partial(self._run, operation, fn, uses, asynchronous))
        self._run_all()
        return operation

    def push_all(self, tasks: Sequence[tuple[Any, ...]], **options: Any) -> list[SerialOperation]:
        """Push all of a list of tuples (fn, read, mutate, accumulate), in its order."""
        return [self.push(*task, **options) for task in tasks]

    def push_async(
        self, start: Callable[[Completion], Any], *uses: Sequence[Any], name: str | None = None, **options: Any
    ) -> SerialOperation:
        """Call start(done), and wait until somebody calls ``done``."""
        title = name or getattr(start, "__qualname__", type(start).__name__)
        body = partial(begin, start, f"operation {title}, pushed at {self._sites.name(self._sites.caller(2))}")
        return self.push(body, *uses, name=title, asynchronous=True, **options)

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
        return self.push(body, read, [*mutate, self.tag(comm)], accumulate, name=name or call, **push)

    def variable(self, name: str = "") -> SerialVariable:
        """Something for operations to read and write."""
        number = next(self._variables)
        return SerialVariable(name or f"v{number}", self)

    def tag(self, data: Any, name: str = "") -> SerialVariable:
        """The variable that stands for this data."""
        known = self._tags.get(data)
        if known is None:
            known = self.variable(name)
            self._tags.put(data, known)
        return known

    def variable_of(self, data: Any) -> SerialVariable:
        """Of what is tagged."""
        known = data if isinstance(data, SerialVariable) else self._tags.get(data)
        if known is None:
            raise ConfigError(f"this {type(data).__name__} is no variable, and not tagged with one: engine.tag(data)")
        return known

    def lane(self, name: str, *, width: int | None = None, bytes: int | None = None) -> SerialLane:
        """A resource."""
        if (width is None) == (bytes is None):
            raise ConfigError("a lane has a width=, in operations, or bytes=")
        return SerialLane(name, whole(width if bytes is None else bytes, "width"), bytes is not None)

    def wait(self, *data: Any, deadline: float | None = None) -> None:
        """Raise what failed of these; without any, what failed first and nobody was told of."""
        until = None if deadline is None else monotonic() + seconds(deadline, or_none_at_all=True)
        operations = [thing for thing in data if isinstance(thing, SerialOperation)]
        if not data and self._untold:
            raise words.failed(self._untold.pop(min(self._untold)).error)
        if variables := [thing for thing in data if not isinstance(thing, SerialOperation)]:
            operations.append(self.push(lambda: None, mutate=variables))
        for operation in operations:
            operation.wait(None if until is None else max(until - monotonic(), 0.0))

    def restore(self, *data: Any) -> None:
        """These variables are whole again."""
        for variable in map(self.variable_of, data):
            variable.last_mode, variable.failure = MUTATE, None

    def close(self, *, cancel: bool = False) -> None:
        """Raise what failed and nobody was told of; run nothing more."""
        self.closed = True
        self.wait()

    def __enter__(self) -> SerialEngine:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.closed = True
        if error is None:
            self.close()

    def _uses(self, *lists: Sequence[Any]) -> dict[SerialVariable, str]:
        uses: dict[SerialVariable, str] = {}
        for mode, given in zip((READ, MUTATE, ACCUMULATE), lists, strict=True):
            for variable in map(self.variable_of, given):
                if variable.engine is not self:
                    raise ConfigError(f"variable {variable.name} belongs to another engine")
                if variable.deleted:
                    raise ConfigError(f"variable {variable.name} was deleted; make another one: engine.variable()")
                uses[variable] = mode if uses.get(variable, mode) == mode else MUTATE
        return uses

    def _tell(self, failure: Failure) -> None:
        self._untold.pop(failure.serial, None)

    def _run_all(self) -> None:
        """What is pushed while an operation runs comes after it."""
        if self._is_running:
            return
        self._is_running = True
        try:
            while self._waiting:
                self._waiting.popleft()()
        finally:
            self._is_running = False

    def _run(
        self, operation: SerialOperation, fn: Callable[..., Any], uses: dict[SerialVariable, str], asynchronous: bool
    ) -> None:
        found: Failure | None = None
        for variable, mode in uses.items():
            found = _first(found, variable.seen(mode))
        if found:
            operation.skip(found)
        else:
            self._execute(operation, fn, asynchronous)
        if (failure := operation.failure) is None:
            return
        if failure.serial == operation.serial and not isinstance(failure.error, CancelledError):
            self._untold[failure.serial] = failure
        for variable, mode in uses.items():
            if mode != READ:
                variable.failure = _first(variable.failure, failure)

    def _execute(self, operation: SerialOperation, fn: Callable[..., Any], asynchronous: bool) -> None:
        try:
            if not asynchronous:
                operation.complete(fn())
                return
            fn(_Token(operation))
        except Exception as error:
            operation.fail(error)
        operation._through.wait()
