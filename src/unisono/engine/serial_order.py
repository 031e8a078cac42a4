"""Which operation of a serial engine is next."""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import CancelledError
from functools import partial
from time import monotonic, monotonic_ns
from typing import Any, TypeAlias

from ..errors import ConfigError, DeadlineExceeded
from . import words
from .dependencies import MUTATE, READ
from .serial_parts import Failure, SerialOperation, Wait, first_of

ITSELF = "it would wait for itself"

Body = Callable[[SerialOperation], None]
Task: TypeAlias = tuple[SerialOperation, Callable[[], None]]


class Order:
    """Operations run one after the other, by whoever pushes or waits. One that waits inside of itself lets those run
    before it that may."""

    def __init__(self) -> None:
        self._changed = threading.Condition()  # of all that follows
        self._numbers = itertools.count(1)
        self._queue: deque[Task] = deque()
        self._under_way: list[SerialOperation] = []
        self._untold: dict[int, Failure] = {}
        self._here = threading.local()

    def add(self, operation: SerialOperation, body: Body) -> SerialOperation:
        """Run it, if nothing is before it."""
        return self._append(operation, partial(self._execute, operation, body))

    def heal(self, operation: SerialOperation) -> None:
        """It makes its variables whole."""
        self._append(operation, partial(_heal, operation))

    def live(self) -> list[SerialOperation]:
        """What is not through, in the order of pushes."""
        with self._changed:
            return [*self._under_way, *(operation for operation, _ in self._queue)]

    def advance(self) -> None:
        """Run what is next, until nothing is, or what was begun has not ended."""
        while task := self._take(lambda: None if self._under_way else self._queue[0]):
            self._run(*task)

    def cancel(self, operation: SerialOperation) -> bool:
        """False if it has begun, or was cancelled before."""
        with self._changed:
            waits = any(each is operation for each, _ in self._queue) and not operation.is_cancelled
            operation.is_cancelled |= waits
        return waits

    def told(self, failure: Failure) -> None:
        """Somebody knows of it."""
        self._untold.pop(failure.serial, None)

    def end_of(self, operation: SerialOperation, limit: float | None) -> bool:
        """Wait for it; False if it takes longer."""
        until = None if limit is None else monotonic() + limit
        if (inside := self._inside()) and not self._run_before(operation, inside[-1], until):
            return False
        return self._until(operation.through.is_set, until)

    def end_of_all(self, limit: float | None) -> None:
        """Raise what failed first and nobody was told of."""
        if inside := self._inside():
            raise ConfigError(f"operation {inside[-1].name} waits for all: {ITSELF}, which is under way, too")
        until = None if limit is None else monotonic() + limit
        if not self._until(lambda: not self._queue and not self._under_way, until):
            live = self.live()
            first = f", first {live[0].name}, pushed at {live[0].where}" if live else ""
            raise DeadlineExceeded(f"{len(live)} operations were not through after {limit:g} s{first}; they go on")
        if self._untold:
            raise words.failed(self._untold.pop(min(self._untold)).error)

    def ended(self, operation: SerialOperation, failure: Failure | None, result: Any = None) -> bool:
        """It is through; False if it was before."""
        with self._changed:
            if operation.through.is_set():
                return False
            if failure:
                if failure.serial == operation.serial and not failure.is_told:
                    self._untold[failure.serial] = failure
                for variable, mode in operation.uses.items():
                    if mode != READ and not isinstance(operation, Wait):
                        variable.failure = first_of(variable.failure, failure)
            operation.end(failure, result)
            self._under_way.remove(operation)
            self._changed.notify_all()
        return True

    def _append(self, operation: SerialOperation, run: Callable[[], None]) -> SerialOperation:
        with self._changed:
            operation.serial = next(self._numbers)
            self._queue.append((operation, run))
        self.advance()
        return operation

    def _take(self, choose: Callable[[], Task | None]) -> Task | None:
        """Out of the queue, to be run."""
        with self._changed:
            task = choose() if self._queue else None
            if task:
                self._queue.remove(task)
                self._under_way.append(task[0])
        return task

    def _run(self, operation: SerialOperation, run: Callable[[], None]) -> None:
        inside = self._inside()
        inside.append(operation)
        try:
            run()
        finally:
            inside.pop()

    def _execute(self, operation: SerialOperation, body: Body) -> None:
        found: Failure | None = None
        for variable, mode in operation.uses.items():
            found = first_of(found, variable.failure if isinstance(operation, Wait) else variable.seen(mode))
        if found:
            self.ended(operation, found)
        elif operation.is_cancelled:
            operation.fail(CancelledError(), cancelled=True)
        else:
            operation.times[1] = monotonic_ns()
            try:
                body(operation)
            except BaseException as error:
                operation.fail(error)
                if isinstance(error, KeyboardInterrupt):
                    raise

    def _inside(self) -> list[SerialOperation]:
        """What this thread runs, one inside of the other."""
        if not hasattr(self._here, "operations"):
            self._here.operations = []
        found: list[SerialOperation] = self._here.operations
        return found

    def _run_before(self, awaited: SerialOperation, waiting: SerialOperation, until: float | None) -> bool:
        """Inside of an operation: run what comes before the awaited one, and that one, as far as they may run beside
        those that are under way. False if that takes too long."""
        stuck = list(self._under_way)

        def next_one() -> Task | None:
            for operation, run in self._queue:
                if operation.serial > awaited.serial:
                    return None
                if operation in stuck:
                    continue
                if self._has_room(operation) and not any(map(operation.conflicts_with, stuck)):
                    return operation, run
                stuck.append(operation)
            return None

        while not awaited.through.is_set() and (task := self._take(next_one)):
            self._run(*task)
            if not self._until(task[0].through.is_set, until):
                return False
        if awaited in self._inside() or (awaited in stuck and awaited not in self._under_way):
            raise ConfigError(
                f"operation {waiting.name} waits for operation {awaited.name}: {ITSELF}: what it waits for cannot end "
                "before it does"
            )
        return True

    def _has_room(self, operation: SerialOperation) -> bool:
        return all(
            sum(other.demands.get(lane, 0) for other in self._under_way) + amount <= lane.capacity
            for lane, amount in operation.demands.items()
        )

    def _until(self, is_so: Callable[[], bool], until: float | None) -> bool:
        """Run what may run, until it is so; False if that takes longer."""
        while not is_so():
            self.advance()
            with self._changed:
                if is_so() or (self._queue and not self._under_way):
                    continue
                if not self._changed.wait(None if until is None else max(until - monotonic(), 0.0)):
                    return is_so()
        return True


def _heal(operation: SerialOperation) -> None:
    for variable in operation.uses:
        variable.last_mode, variable.failure = MUTATE, None
    operation.complete(None)
