"""The words of a schedule: four nouns, written from one rank's point of view.

A pattern is a generator of rounds. One ``yield`` is one round: a ``Put``, ``Get`` or ``Do``, or a tuple of them.
Every field is plain arithmetic on the rank ``r``, and ``r`` is either one rank (an int) or a column of ranks (an
array), so the same lines give one rank's program or all ranks at once. Two more axes keep long schedules short:

* ``t = rounds(k)`` stands for 0…k-1, one after the other: a yield that uses ``t`` is k rounds.
* ``each(k)`` stands for 0…k-1 side by side: an operation that uses it is k operations of one round.

The rules that every reader of a schedule relies on:

1. In a round, the Dos come first, then Puts read, then Gets write. Gets on one block apply in the listed order.
2. All traffic of a pair of ranks in a round is one message. p-1 Puts in one round are still one round.
3. A Put matches a Get of the same round, pair and blocks.
4. In a round, what is written is disjoint from what is sent and from what else is written; only reducing Gets
   may follow another write of the same block.
5. Sizes never enter: a block is a number. Block b has the same size on every rank and in every space.
6. DATA starts as a copy of INPUT; whoever runs the schedule makes that copy only where it is needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Number = Any
"""An int, or an int64 array that broadcasts over (rounds, ranks, lanes)."""

NOBODY = -1
"""The peer of an operation that does not take place on this rank."""

EVERY_BLOCK = -1
"""As a count: all the blocks that the schedule has."""


class Space(IntEnum):
    """Where a block lies: the result, the caller's read-only input, or scratch memory (TEMP, TEMP + 1, …)."""

    DATA = 0
    INPUT = 1
    TEMP = 2


class How(IntEnum):
    """What becomes of the block that is written: replaced, or reduced with the arriving one on the left or right."""

    COPY = 0
    REDUCE_BEFORE = 1
    REDUCE_AFTER = 2


DATA, INPUT, TEMP = Space
COPY, REDUCE_BEFORE, REDUCE_AFTER = How


class Span(NamedTuple):
    """A cyclic run of blocks."""

    first: Number
    count: Number = 1
    space: Number = DATA


class Put(NamedTuple):
    """Send a span to a peer."""

    to: Number
    span: Span


class Get(NamedTuple):
    """Receive a span from a peer."""

    source: Number
    span: Span
    how: Number = COPY


class Do(NamedTuple):
    """Move or reduce blocks inside a rank, from another space into the span, before the round's messages."""

    span: Span
    source: Number
    how: Number = COPY
    when: Number = True


Operation = Put | Get | Do
Round = Operation | tuple[Operation, ...]
Rounds = Iterator[Round]

ALL = Span(0, EVERY_BLOCK)


_window: ContextVar[slice] = ContextVar("window", default=slice(None))


def rounds(count: int) -> Ints:
    """The numbers 0…count-1 along the axis of rounds; only some of them inside of `windowed`."""
    return np.arange(count)[_window.get()].reshape(-1, 1, 1)


def windowed(stream: Rounds, window: slice) -> Rounds:
    """The stream as if every yield of several rounds had only those of the window: the rest is never computed."""
    while True:
        with _looking_at(window):
            round_ = next(stream, None)
        if round_ is None:
            return
        yield round_


def mirrored() -> Any:
    """For who reads rounds backwards: the window that has the same rounds counted from the end."""
    window = _window.get()
    return _looking_at(slice(_negative(window.stop), _negative(window.start)))


@contextmanager
def _looking_at(window: slice) -> Iterator[None]:
    token = _window.set(window)
    try:
        yield
    finally:
        _window.reset(token)


def _negative(bound: int | None) -> int | None:
    return -bound if bound else None


def each(count: int) -> Ints:
    """The numbers 0…count-1 along the axis of lanes: operations side by side in one round."""
    return np.arange(count)


def length(field: Number) -> int:
    """How many rounds a field stands for."""
    return int(field.shape[0]) if isinstance(field, np.ndarray) and field.ndim == 3 else 1


def operations(round_: Round) -> tuple[Operation, ...]:
    """A round's operations, also if it is a single one."""
    return (round_,) if isinstance(round_, (Put, Get, Do)) else round_


def fields(operation: Operation) -> list[Number]:
    """All numbers of an operation, spans flattened."""
    return [number for field in operation for number in (field if isinstance(field, Span) else (field,))]


def duration(operations: tuple[Operation, ...]) -> int:
    """How many rounds a yield stands for."""
    lengths = {length(field) for operation in operations for field in fields(operation)} - {1}
    return lengths.pop() if lengths else 1


def is_idle(operation: Operation) -> bool:
    """Is it plain that the operation takes place on no rank?"""
    turn = operation.when if isinstance(operation, Do) else operation[0] != NOBODY
    return turn is False
