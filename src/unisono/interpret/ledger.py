"""The book of a schedule's costs: who talks, and the bytes of every kind of link, round and rank."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..schedule.ir import COPY, NOBODY, Do, Get, Ints, Number, Operation, Put, Span, duration
from .machine import Machine

Floats = NDArray[np.float64]


@dataclass
class Ledger:
    """``talks``, ``out`` and ``into`` have the axes (kind of link, round, rank); ``reduced`` has (round, rank)."""

    machine: Machine
    talks: NDArray[np.bool_]
    out: Floats
    into: Floats
    reduced: Floats

    @classmethod
    def of(
        cls, operations: tuple[Operation, ...], ranks: Ints, size: Callable[..., Number], machine: Machine
    ) -> Ledger:
        """Enter the operations of some rounds; ``size(first, count)`` is the bytes of a run of blocks."""
        ledger = cls.empty(duration(operations), len(ranks), machine)
        for operation in operations:
            span = operation.span
            nbytes = size(span.first, span.count)
            if isinstance(operation, Do):
                reduced = operation.how != COPY
                ledger.reduced += _over_lanes(np.add, np.where(operation.when & reduced, nbytes, 0), span)
                continue
            for kind, here in enumerate(machine.kinds_of_link(ranks, operation[0])):
                ledger._enter(operation, kind, here & (operation[0] != NOBODY), nbytes)
        return ledger

    @classmethod
    def empty(cls, rounds: int, ranks: int, machine: Machine) -> Ledger:
        shape = (len(machine.links), rounds, ranks)
        return cls(machine, np.zeros(shape, bool), np.zeros(shape), np.zeros(shape), np.zeros(shape[1:]))

    @classmethod
    def staggered(cls, ledgers: Sequence[Ledger], segments: int) -> list[Ledger]:
        """The sequence of ledgers for each of some segments, every one a round behind the last, added up."""
        rounds = sum(len(ledger.reduced) for ledger in ledgers)
        if rounds == 0:
            return []
        tau = np.arange(rounds + segments - 1)
        first, end = np.maximum(tau - segments + 1, 0), np.minimum(tau + 1, rounds)

        def windows(name: str) -> Floats:
            series = np.concatenate([getattr(ledger, name) for ledger in ledgers], axis=-2)
            until = np.cumsum(np.concatenate([np.zeros_like(series[..., :1, :]), series], axis=-2), axis=-2)
            return np.asarray(until[..., end, :] - until[..., first, :])

        talks = windows("talks") > 0
        return [cls(ledgers[0].machine, talks, windows("out"), windows("into"), windows("reduced"))]

    def per_rank(self) -> tuple[Floats, Floats, Floats]:
        """Bytes sent, received and reduced by each rank."""
        sent, received, reduced = (series.sum(axis=0) for series in (*self._wire(), self.reduced))
        return sent, received, reduced

    def busiest(self, delay: Ints) -> Floats:
        """For each round: its time, whether anybody talks, the most bytes that a rank sends or receives, and reduces.

        A rank stands for others that do the same 1, 2, … up to ``delay`` rounds later.
        """
        links = self.machine.links
        start = reduce(np.maximum, [link.alpha * talks for link, talks in zip(links, self.talks, strict=True)])
        out = reduce(np.add, [link.beta * out for link, out in zip(links, self.out, strict=True)])
        into = reduce(np.add, [link.beta * into for link, into in zip(links, self.into, strict=True)])
        cost = start + np.maximum(out, into) + self.machine.gamma * self.reduced
        talks, wire = reduce(np.logical_or, self.talks), np.maximum(*self._wire())
        return np.stack([_most(series, delay) for series in (cost, talks, wire, self.reduced)])

    def _wire(self) -> tuple[Floats, Floats]:
        """Bytes out and in, over all kinds of links."""
        return reduce(np.add, self.out), reduce(np.add, self.into)

    def _enter(self, operation: Put | Get, kind: int, here: Any, nbytes: Number) -> None:
        self.talks[kind] |= _over_lanes(np.logical_or, here, operation.span)
        amount = np.where(here, nbytes, 0)
        moved = _over_lanes(np.add, amount, operation.span)
        if isinstance(operation, Put):
            self.out[kind] += moved
            return
        self.into[kind] += moved
        reduces = operation.how != COPY
        if np.all(reduces):
            self.reduced += moved
        elif np.any(reduces):
            self.reduced += _over_lanes(np.add, np.where(reduces, amount, 0), operation.span)


def _most(series: NDArray[Any], delay: Ints) -> Floats:
    """The maximum over the ranks, each also standing for those that come up to ``delay`` rounds later."""
    columns = [_maximum_of_last(series[:, rank].astype(float), delay[rank] + 1) for rank in np.flatnonzero(delay)]
    prompt = series[:, delay == 0].max(axis=1, initial=0) if columns else series.max(axis=1)
    return np.asarray(np.max([prompt, *columns], axis=0))


def _maximum_of_last(series: Floats, width: int) -> Floats:
    """The maximum of each number (none below 0) and the ``width - 1`` before it.

    In blocks of ``width``, a window is the end of one block and the beginning of the next (van Herk, 1992).
    """
    length = len(series)
    blocks = np.pad(series, (width - 1, -(length + width - 1) % width)).reshape(-1, width)
    ends = np.maximum.accumulate(blocks[:, ::-1], axis=1)[:, ::-1].reshape(-1)
    beginnings = np.maximum.accumulate(blocks, axis=1).reshape(-1)
    return np.maximum(ends[:length], beginnings[width - 1 : width - 1 + length])


def _over_lanes(combine: np.ufunc, value: Any, span: Span) -> NDArray[Any]:
    """A value of every round and rank, from that of its lanes."""
    shape = np.broadcast_shapes(np.shape(value), np.shape(span.first), np.shape(span.count), (1, 1))
    lanes = np.broadcast_to(value, shape)
    return lanes[..., 0] if shape[-1] == 1 else np.asarray(combine.reduce(lanes, axis=-1))
