"""The book of a schedule's costs: bytes and seconds of every round and rank."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..schedule.ir import COPY, NOBODY, Do, Ints, Number, Operation, Put, Span, duration
from .machine import Machine

Floats = NDArray[np.float64]


@dataclass
class Ledger:
    """Who talks, and the bytes and seconds of every round (first axis) and rank (second axis)."""

    talks: NDArray[np.bool_]
    alpha: Floats
    out: Floats
    out_time: Floats
    into: Floats
    into_time: Floats
    reduced: Floats

    @classmethod
    def of(
        cls, operations: tuple[Operation, ...], ranks: Ints, size: Callable[..., Number], machine: Machine
    ) -> Ledger:
        """Enter the operations of some rounds; ``size(first, count)`` is the bytes of a run of blocks."""
        shape = (duration(operations), len(ranks))
        ledger = cls(np.zeros(shape, bool), *np.zeros((6, *shape)))
        for operation in operations:
            ledger._enter(operation, ranks, size, machine)
        return ledger

    def _enter(self, operation: Operation, ranks: Ints, size: Callable[..., Number], machine: Machine) -> None:
        span = operation.span
        nbytes = size(span.first, span.count)
        if isinstance(operation, Do):
            self.reduced += _over_lanes(np.add, np.where(operation.when, nbytes * (operation.how != COPY), 0), span)
            return
        peer = operation[0]
        here = peer != NOBODY
        nbytes = np.where(here, nbytes, 0)
        alpha, beta = machine.between(ranks, peer)
        talks = _over_lanes(np.logical_or, here, span)
        self.talks |= talks
        here_alpha = talks * alpha if machine.uniform else _over_lanes(np.maximum, np.where(here, alpha, 0), span)
        np.maximum(self.alpha, here_alpha, out=self.alpha)
        amount = _over_lanes(np.add, nbytes, span)
        seconds = amount * beta if machine.uniform else _over_lanes(np.add, nbytes * beta, span)
        if isinstance(operation, Put):
            self.out += amount
            self.out_time += seconds
        else:
            self.into += amount
            self.into_time += seconds
            self.reduced += _over_lanes(np.add, nbytes * (operation.how != COPY), span)

    def busiest(self, gamma: float, delay: Ints) -> Floats:
        """For each round: its time, whether anybody talks, the most bytes that a rank sends or receives, and reduces.

        A rank stands for others that do the same 1, 2, … up to ``delay`` rounds later.
        """
        cost = self.alpha + np.maximum(self.out_time, self.into_time) + self.reduced * gamma
        series = np.stack([cost, self.talks, np.maximum(self.out, self.into), self.reduced])
        for column in np.flatnonzero(delay):
            series[..., column] = _maximum_of_last(series[..., column], delay[column] + 1)
        return np.asarray(series.max(axis=-1))

    @classmethod
    def joined(cls, ledgers: list[Ledger], ranks: int) -> Ledger:
        """One after the other."""
        nothing = cls(np.zeros((0, ranks), bool), *np.zeros((6, 0, ranks)))
        columns = zip(*(vars(ledger).values() for ledger in (nothing, *ledgers)), strict=True)
        return cls(*(np.concatenate(column) for column in columns))

    def staggered(self, segments: int) -> Ledger:
        """The same for each of some segments, every one a round behind the last, added up."""
        if segments == 1 or len(self.talks) == 0:
            return self
        first = np.maximum(np.arange(len(self.talks) + segments - 1) - segments + 1, 0)
        end = np.minimum(np.arange(len(self.talks) + segments - 1) + 1, len(self.talks))

        def window(series: NDArray[Any]) -> Floats:
            until = np.concatenate([np.zeros((1, series.shape[1])), np.cumsum(series, axis=0)])
            return np.asarray(until[end] - until[first])

        added = Ledger(*map(window, vars(self).values()))  # type: ignore[arg-type]
        added.talks = added.talks > 0
        added.alpha = added.talks * self.alpha.max()
        return added


def _maximum_of_last(series: Floats, width: int) -> Floats:
    """The maximum of each number (none below 0) and the ``width - 1`` before it, along the last axis.

    In blocks of ``width``, a window is the end of one block and the beginning of the next (van Herk, 1992).
    """
    length = series.shape[-1]
    padding = [(0, 0)] * (series.ndim - 1) + [(width - 1, -(length + width - 1) % width)]
    blocks = np.pad(series, padding).reshape(*series.shape[:-1], -1, width)
    ends = np.maximum.accumulate(blocks[..., ::-1], axis=-1)[..., ::-1].reshape(*series.shape[:-1], -1)
    beginnings = np.maximum.accumulate(blocks, axis=-1).reshape(*series.shape[:-1], -1)
    return np.maximum(ends[..., :length], beginnings[..., width - 1 : width - 1 + length])


def _over_lanes(combine: np.ufunc, value: Any, span: Span) -> NDArray[Any]:
    """A value of every round and rank, from that of its lanes."""
    shape = np.broadcast_shapes(np.shape(value), np.shape(span.first), np.shape(span.count), (1, 1))
    lanes = np.broadcast_to(value, shape)
    return lanes[..., 0] if shape[-1] == 1 else np.asarray(combine.reduce(lanes, axis=-1))
