"""What a serial engine has to do with: variables, lanes and operations."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from time import monotonic_ns
from typing import TYPE_CHECKING, Any

from ..comm.arguments import seconds
from . import words
from .dependencies import ACCUMULATE, MUTATE, READ, Entry, Hold, Touch

if TYPE_CHECKING:
    from .serial import SerialEngine
    from .serial_order import Order


@dataclass(frozen=True)
class Failure:
    """Of the operation with that place in the order of pushes."""

    serial: int
    error: BaseException
    is_told: bool = False  # of itself: nobody has to be told who did not ask


def first_of(one: Failure | None, other: Failure | None) -> Failure | None:
    return min((failure for failure in (one, other) if failure), key=lambda failure: failure.serial, default=None)


@dataclass(eq=False)
class SerialVariable:
    """A variable is what it was left with: whole, or failed."""

    name: str
    number: int
    is_named: bool
    engine: SerialEngine = field(repr=False)
    deleted: bool = False
    last_mode: int = MUTATE
    failure: Failure | None = None
    before_run: Failure | None = None  # those that accumulate do not see each other's

    def delete(self) -> None:
        """Nothing more can be pushed that uses it."""
        self.deleted = True

    def seen(self, mode: int) -> Failure | None:
        """What an operation finds that comes to it."""
        if mode == ACCUMULATE and self.last_mode != ACCUMULATE:
            self.before_run = self.failure
        self.last_mode = mode
        return self.before_run if mode == ACCUMULATE else self.failure


@dataclass(frozen=True, eq=False)
class SerialLane:
    """There is always room for one."""

    name: str
    capacity: int
    counts_bytes: bool
    engine: SerialEngine = field(repr=False)


Uses = Mapping[SerialVariable, int]
Demands = Mapping[SerialLane, int]


class SerialOperation:
    """An operation, which has run unless one before it has not ended."""

    def __init__(self, order: Order, name: str, where: str, uses: Uses, demands: Demands) -> None:
        self.name, self.where = name, where
        self.serial = 0  # which the order says
        self.uses, self.demands = uses, demands
        self.failure: Failure | None = None
        self.is_cancelled = False
        self.times = [monotonic_ns(), 0, 0]  # pushed, begun, ended
        self.through = threading.Event()
        self._order = order
        self._result: Any = None

    @property
    def place(self) -> str:
        return f"operation {self.name}, pushed at {self.where}"

    @property
    def entry(self) -> Entry:
        """For pictures and reports."""
        touches = tuple(Touch(variable.number, variable.name, mode) for variable, mode in self.uses.items())
        pushed, begun, ended = self.times
        state = 3 if ended else 2 if begun else 0
        failed = self.failure is not None
        times = pushed, begun, begun, ended
        return Entry(self.serial, self.name, self.where, touches, state, *times, 0, failed, self._holds())

    def _holds(self) -> tuple[Hold, ...]:
        lanes = [Hold(id(lane), amount, lane.capacity) for lane, amount in self.demands.items()]
        return *lanes, *(Hold(id(variable), 1, 1) for variable, mode in self.uses.items() if mode == ACCUMULATE)

    def done(self) -> bool:
        """Is it through, well or badly?"""
        self._order.advance()
        return self.through.is_set()

    def cancel(self) -> bool:
        """Do not run it, if it has not begun; what depends on it is not run either."""
        return self._order.cancel(self)

    def exception(self) -> BaseException | None:
        """What `wait` would raise, if it is through."""
        if not self.done() or self.failure is None:
            return None
        self._order.told(self.failure)
        return self.failure.error

    def wait(self, deadline: float | None = None) -> Any:
        """The result; raises what the operation raised, or what it depends on."""
        limit = None if deadline is None else seconds(deadline, or_none_at_all=True)
        if not self._order.end_of(self, limit):
            raise words.late(f"{self.name}, pushed at {self.where}", limit or 0.0)
        if self.failure:
            self._order.told(self.failure)
            raise words.failed(self.failure.error)
        return self._result

    # For the engine

    def complete(self, result: Any) -> bool:
        """It is through; False if it was before."""
        return self._order.ended(self, None, result)

    def fail(self, error: BaseException, cancelled: bool = False) -> bool:
        """The same, with an exception."""
        reason = words.cancelled(self.place, bool(self.times[1])) if cancelled else words.placed(error, self.place)
        return self._order.ended(self, Failure(self.serial, reason, cancelled))

    def end(self, failure: Failure | None, result: Any) -> None:
        self.failure, self._result = failure, result
        self.times[2] = monotonic_ns()
        self.through.set()

    def conflicts_with(self, other: SerialOperation) -> bool:
        """Could it not be under way at once with one that was pushed before?"""
        if isinstance(other, Wait):
            return False
        both = self.uses.keys() & other.uses.keys()
        return any(self.uses[each] != READ or other.uses[each] != READ for each in both)


class Mark(SerialOperation):
    """Of a place in the order: an operation of the engine's own."""


class Wait(Mark):
    """Comes after what is before it; nothing comes after it."""

    def comes_after(self, other: SerialOperation) -> bool:
        return other.serial < self.serial and self.conflicts_with(other)


class Token:
    """Of an asynchronous operation: tells of its end, also if it is dropped."""

    def __init__(self, operation: SerialOperation) -> None:
        self._operation = operation

    def complete(self, result: Any) -> bool:
        return self._operation.complete(result)

    def fail(self, error: BaseException, cancelled: bool = False) -> bool:
        return self._operation.fail(error, cancelled)

    def __del__(self) -> None:
        self._operation.fail(words.dropped())
