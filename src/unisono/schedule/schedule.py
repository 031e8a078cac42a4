"""A schedule: an algorithm for so many ranks. It unrolls into one rank's program, or into a table of all ranks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from .conditions import Collective
from .ir import EVERY_BLOCK, NOBODY, Do, Get, Ints, Number, Operation, Put, Rounds, Span, duration, is_idle, operations
from .layout import EqualBlocks, Layout, UnequalBlocks
from .pattern import Pattern, named_parameters, only_named


class Messages(NamedTuple):
    """Puts or Gets of all ranks, a row each, sorted by round; rows of a rank and round stand in the listed order."""

    round: Ints
    rank: Ints
    peer: Ints
    space: Ints
    first: Ints
    count: Ints  # type: ignore[assignment]  # the word, not tuple's method
    how: Ints


class Moves(NamedTuple):
    """Dos of all ranks, a row each, sorted by round."""

    round: Ints
    rank: Ints
    space: Ints
    first: Ints
    count: Ints  # type: ignore[assignment]  # the word, not tuple's method
    source: Ints
    how: Ints


@dataclass(frozen=True)
class Table:
    """A whole schedule as plain data."""

    collective: Collective
    p: int
    root: int
    workers: int
    blocks: int
    rounds: int
    puts: Messages
    gets: Messages
    moves: Moves
    name: str = ""
    shares: Ints | None = None

    def layout(self, nbytes: int, element: int = 1) -> Layout:
        """The blocks of so many bytes."""
        return _layout(self, nbytes, element)


@dataclass(frozen=True)
class Schedule:
    """An algorithm for p ranks (and a root, where the collective has one)."""

    collective: Collective
    name: str
    pattern: Pattern
    p: int
    root: int
    blocks: int
    workers: int
    shares: Ints | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def layout(self, nbytes: int, element: int = 1) -> Layout:
        """The blocks of so many bytes."""
        return _layout(self, nbytes, element)

    def rounds(self, r: Number, pattern: Pattern | None = None) -> Rounds:
        """The rounds of one rank (an int) or of a column of ranks; of one phase if a pattern is given."""
        return (pattern or self.pattern)(self.p, r, root=self.root, **self.parameters)

    def value(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """A function of p (and r) and of any of the schedule's parameters."""
        known = {"root": self.root, **self.parameters}
        return function(self.p, *arguments, **only_named(named_parameters(function), known))

    def program(self, rank: int) -> list[tuple[Operation, ...]]:
        """What one rank does: a tuple of operations in plain ints for every round."""
        return [round_ for yielded in self.rounds(rank) for round_ in self._rounds_of_one_rank(operations(yielded))]

    @cached_property
    def table(self) -> Table:
        """What all ranks do."""
        ranks = np.arange(self.p).reshape(-1, 1)
        rows: dict[type, list[Ints]] = {Put: [], Get: [], Do: []}
        start = 0
        for yielded in self.rounds(ranks):
            count = duration(operations(yielded))
            for operation in operations(yielded):
                rows[type(operation)].append(self._rows(operation, np.arange(start, start + count), ranks))
            start += count
        return Table(
            self.collective,
            self.p,
            self.root,
            self.workers,
            self.blocks,
            start,
            Messages(*_by_round(rows[Put])),
            Messages(*_by_round(rows[Get])),
            Moves(*_by_round(rows[Do])),
            self.name,
            self.shares,
        )

    def _rows(self, operation: Operation, rounds: Ints, ranks: Ints) -> Ints:
        """The active rows of one operation, in the column order of Messages or Moves."""
        match operation:
            case Put(to, span):
                columns, active = (to, span.space, span.first, span.count, 0), to != NOBODY
            case Get(source, span, how):
                columns, active = (source, span.space, span.first, span.count, how), source != NOBODY
            case Do(span, source, how, when):
                columns, active = (span.space, span.first, span.count, source, how), when
        grid = np.broadcast_arrays(active, rounds.reshape(-1, 1, 1), ranks, *columns)
        table = np.stack([column[grid[0]] for column in grid[1:]])
        first, count = (3, 4) if isinstance(operation, Do) else (4, 5)
        table[first] %= self.blocks
        table[count, table[count] == EVERY_BLOCK] = self.blocks
        return table

    def _rounds_of_one_rank(self, operations: tuple[Operation, ...]) -> Iterator[tuple[Operation, ...]]:
        if all(map(_is_plain, operations)):
            yield tuple(self._concrete(operation) for operation in operations if not is_idle(operation))
            return
        result: list[list[Operation]] = [[] for _ in range(duration(operations))]
        rank = np.zeros((1, 1), int)
        for operation in operations:
            round_, _, *columns = self._rows(operation, np.arange(len(result)), rank).tolist()
            match operation:
                case Put():
                    for t, to, space, first, count, _ in zip(round_, *columns, strict=True):
                        result[t].append(Put(to, Span(first, count, space)))
                case Get():
                    for t, source, space, first, count, how in zip(round_, *columns, strict=True):
                        result[t].append(Get(source, Span(first, count, space), how))
                case Do():
                    for t, space, first, count, source, how in zip(round_, *columns, strict=True):
                        result[t].append(Do(Span(first, count, space), source, how))
        yield from map(tuple, result)

    def _concrete(self, operation: Operation) -> Operation:
        first, count, space = operation.span
        span = Span(first % self.blocks, self.blocks if count == EVERY_BLOCK else count, space)
        return operation._replace(span=span)


def _layout(cut: Schedule | Table, nbytes: int, element: int) -> Layout:
    """Blocks as equal as can be, or in the shares that were asked for."""
    total = cut.collective.total(cut.p, nbytes)
    if cut.shares is not None and np.ptp(cut.shares) > 0:
        return UnequalBlocks.in_shares(total, cut.shares, element)
    return EqualBlocks(total, cut.blocks, element)


def _is_plain(operation: Operation) -> bool:
    first, count, _ = operation.span
    turn = operation.when if isinstance(operation, Do) else operation[0]
    return type(first) is int and type(count) is int and type(turn) in (int, bool)


def _by_round(rows: list[Ints]) -> Ints:
    if not rows:
        return np.zeros((7, 0), int)
    table = np.concatenate(rows, axis=1)
    return table[:, np.argsort(table[0], kind="stable")]
