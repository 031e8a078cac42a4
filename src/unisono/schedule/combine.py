"""How patterns are built from patterns: one after the other, backwards, side by side, on a group, in segments."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .arithmetic import in_rank_order, only, where
from .ir import (
    ALL,
    COPY,
    EVERY_BLOCK,
    NOBODY,
    Do,
    Get,
    Number,
    Operation,
    Put,
    Round,
    Rounds,
    Span,
    duration,
    is_idle,
    length,
    mirrored,
    operations,
    rounds,
)
from .pattern import Alike, Pattern, named_parameters, only_named


def then(*patterns: Pattern, name: str, summary: str, alike: Alike | None = None) -> Pattern:
    """One pattern after the other. ``alike`` is for who goes on to build from the whole; phases have their own."""
    parts = tuple(phase for pattern in patterns for phase in pattern.phases)

    def sequence(p: int, r: Number, **parameters: Any) -> Rounds:
        for part in parts:
            yield from part(p, r, **parameters)

    parameters = frozenset().union(*(part.parameters for part in parts))
    return Pattern(sequence, name, summary, parameters, alike, parts)


def dual(original: Pattern, *, name: str, summary: str, reducing: bool) -> Pattern:
    """The pattern read backwards: last round first, every Put a Get and every Get a Put.

    A broadcast becomes a reduce, a scatter a gather, an allgather a reduce-scatter.
    """

    def backwards(p: int, r: Number, **parameters: Any) -> Rounds:
        with mirrored():
            forwards = list(original(p, r, **parameters))
        for round_ in reversed(forwards):
            yield tuple(turned(operation, r) for operation in operations(round_))

    def turned(operation: Operation, r: Number) -> Operation:
        match _map_fields(_reversed_in_time, operation):
            case Put(to, span):
                return Get(to, span, in_rank_order(to, r) if reducing else COPY)
            case Get(source, span):
                return Put(source, span)
        raise ValueError(f"{original.name} has local moves, so it has no dual")

    return Pattern(backwards, name, summary, original.parameters, original.alike)


def together(*streams: Rounds) -> Rounds:
    """Streams of rounds side by side, until the longest ends."""
    heads = [_Head(stream) for stream in streams]
    while live := [head for head in heads if head.load()]:
        step = min(head.remaining for head in live)
        yield tuple(operation for head in live for operation in head.take(step))


def on(
    stream: Rounds,
    *,
    real: Callable[[Number], Number],
    member: Any = True,
    blocks: int | None = None,
    first: Callable[[Number], Number] = lambda b: b,
) -> Rounds:
    """Rounds written for a small group, as part of a larger schedule.

    ``real(i)`` is the i-th rank of the group and ``member`` says which ranks are in it. If the group works on a part
    of the vector only, that part has ``blocks`` blocks, the b-th of which starts at block ``first(b)`` of the whole.
    """

    def pieces(span: Span) -> Iterator[tuple[Span, Any]]:
        if blocks is None:
            yield span, member
            return
        start, count, space = (0, blocks, span.space) if _is_whole(span) else span
        end = start + count
        wraps = end > blocks
        yield Span(first(start), first(where(wraps, blocks, end)) - first(start), space), member
        if np.any(wraps):
            yield Span(first(0), first(where(wraps, end - blocks, 0)) - first(0), space), wraps & member

    def placed(operation: Operation) -> Iterator[Operation]:
        for span, here in pieces(operation.span):
            match operation:
                case Put(to):
                    yield Put(only((to != NOBODY) & here, real(to)), span)
                case Get(source, _, how):
                    yield Get(only((source != NOBODY) & here, real(source)), span, how)
                case Do(_, source, how, when):
                    yield Do(span, source, how, when & here)

    for round_ in stream:
        yield tuple(piece for operation in operations(round_) if not is_idle(operation) for piece in placed(operation))


def pipelined(original: Pattern, *, name: str, summary: str, width: Callable[..., int]) -> Pattern:
    """The pattern on ``segments`` slices of ``width(p, …)`` blocks of the vector, every one a round after the last.

    Made for patterns of few rounds: each round of the original is an operation in every round here.
    """

    def staggered(p: int, r: Number, segments: int, **parameters: Any) -> Rounds:
        stages = list(_singly(original(p, r, **parameters)))
        tau = rounds(len(stages) - 1 + segments if stages else 0)
        blocks = width(p, **only_named(named_parameters(width), parameters))

        def stage_at(stage: Round, segment: Number) -> Rounds:
            live = (segment >= 0) & (segment < segments)
            return on(iter([stage]), real=lambda i: i, member=live, blocks=blocks, first=lambda b: b + segment * blocks)

        for staged in zip(*(stage_at(stage, tau - i) for i, stage in enumerate(stages)), strict=True):
            idle = Put(tau * 0 + NOBODY, ALL)  # a rank that does nothing still counts the rounds
            yield (idle, *(operation for round_ in staged for operation in operations(round_)))

    parameters = original.parameters | {"segments"}
    return Pattern(staggered, name, summary, parameters, original.alike, stage=original, width=width)


def _singly(stream: Rounds) -> Rounds:
    """The stream, one round at a time."""
    head = _Head(stream)
    while head.load():
        yield tuple(head.take(1))


def _is_whole(span: Span) -> bool:
    return isinstance(span.count, int) and span.count == EVERY_BLOCK


def _reversed_in_time(field: Number) -> Number:
    return field[::-1] if length(field) > 1 else field


def _map_fields(change: Callable[[Number], Number], operation: Operation) -> Operation:
    return type(operation)(*(Span(*map(change, x)) if isinstance(x, Span) else change(x) for x in operation))


class _Head:
    """The next rounds of a stream, of which some may have been taken."""

    def __init__(self, stream: Rounds) -> None:
        self.stream = stream
        self.operations: tuple[Operation, ...] = ()
        self.position = self.remaining = 0

    def load(self) -> bool:
        while not self.remaining:
            if (round_ := next(self.stream, None)) is None:
                return False
            self.operations, self.position = operations(round_), 0
            self.remaining = duration(self.operations)
        return True

    def take(self, count: int) -> Iterator[Operation]:
        part = slice(self.position, self.position + count)
        self.position, self.remaining = part.stop, self.remaining - count
        if part.start == 0 and self.remaining == 0:
            return iter(self.operations)
        return (_map_fields(lambda x: x[part] if length(x) > 1 else x, operation) for operation in self.operations)
