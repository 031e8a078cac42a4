"""Rings, tori and meshes: every rank has a link to each neighbour, in each direction.

Rank r stands at the coordinates of r in the mixed base of the extents, the last one changing fastest. A message goes
along the first dimension until that coordinate is right, then along the second, and so on; on a torus the shorter way
round, upwards if both are as long.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..schedule.ir import Ints
from .topology import Floats, Group, Routes, Topology

UP, DOWN = 0, 1
AXES = "xyzuvw"


class Leg(NamedTuple):
    """The part of a message's way along one dimension: from which rank, and how many hops up or down."""

    start: Ints
    coordinate: Ints
    steps: Ints


@dataclass(frozen=True)
class Grid(Topology):
    """Links are numbered by dimension, then by direction, then by the rank that they lead away from."""

    dims: tuple[int, ...]
    wraps: bool

    @property
    def name(self) -> str:
        if self.wraps and len(self.dims) == 1:
            return "ring"
        return ("torus:" if self.wraps else "mesh:") + "x".join(map(str, self.dims))

    @property
    def groups(self) -> list[Group]:
        columns = self.dims[-1] if len(self.dims) > 1 else min(self.p, 64)
        rows = -(-self.p // columns)
        if rows * columns != self.p:
            rows, columns = 1, self.p
        return [
            Group(f"{self._axis(axis)} {sign}", (2 * axis + way) * self.p, rows, columns)
            for axis in range(len(self.dims))
            for way, sign in ((UP, "up"), (DOWN, "down"))
        ]

    def relative_beta(self) -> Floats:
        return np.ones(self.links)

    def link_name(self, link: int) -> str:
        kind, rank = divmod(link, self.p)
        sign = "-" if kind % 2 else "+"
        return f"rank {rank} {sign}{self._axis(kind // 2)}"

    def hops(self, source: Ints, target: Ints) -> Ints:
        return np.asarray(np.sum([np.abs(leg.steps) for leg in self._legs(source, target)], axis=0))

    def routes(self, source: Ints, target: Ints) -> Routes:
        legs = self._legs(source, target)
        lengths = np.array([np.abs(leg.steps) for leg in legs])
        offset = np.concatenate([[0], np.cumsum(lengths.sum(axis=0))])
        link = np.empty(offset[-1], int)
        begin = offset[:-1].copy()
        for axis, (leg, length) in enumerate(zip(legs, lengths, strict=True)):
            message = np.repeat(np.arange(len(source)), length)
            step = np.arange(len(message)) - np.repeat(np.cumsum(length) - length, length)
            link[begin[message] + step] = self._links(axis, leg, message, step)
            begin += length
        return Routes(offset, link)

    def load(self, source: Ints, target: Ints, amount: Floats) -> Floats:
        """Without walking the routes: what enters and leaves each line of ranks, summed up along it."""
        equal = len(amount) > 0 and bool((amount == amount[0]).all())
        weights = np.ones(len(amount)) if equal else amount  # counts are exact, sums of fractions are not
        lines = [
            self._along(axis, way, leg, weights)
            for axis, leg in enumerate(self._legs(source, target))
            for way in (UP, DOWN)
        ]
        return np.concatenate(lines) * (amount[0] if equal else 1.0)

    def crosses(self, source: Ints, target: Ints, marked: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Without walking the routes: by counting the marked links along each line of ranks."""
        result = np.zeros(len(source), bool)
        for axis, leg in enumerate(self._legs(source, target)):
            for way in (UP, DOWN):
                moving = np.flatnonzero(leg.steps < 0 if way == DOWN else leg.steps > 0)
                if len(moving):
                    here = marked[(2 * axis + way) * self.p : (2 * axis + way + 1) * self.p]
                    result[moving] |= self._crosses(axis, way, Leg(*(column[moving] for column in leg)), here)
        return result

    def _crosses(self, axis: int, way: int, leg: Leg, marked: NDArray[np.bool_]) -> NDArray[np.bool_]:
        extent, stride = self.dims[axis], prod(self.dims[axis + 1 :])
        lines = marked.reshape(-1, extent, stride).transpose(0, 2, 1).reshape(-1, extent)
        if way == DOWN:
            lines = lines[:, ::-1]
        until = np.zeros((len(lines), 2 * extent + 1), np.int32)
        np.cumsum(np.concatenate([lines, lines], axis=1), axis=1, out=until[:, 1:])
        line, first = self._place_in_line(axis, way, leg)
        return np.asarray(until[line, first + np.abs(leg.steps)] > until[line, first])

    def _place_in_line(self, axis: int, way: int, leg: Leg) -> tuple[Ints, Ints]:
        """The line of ranks that a leg goes along, and where it begins as seen from the end that it moves away from."""
        extent, stride = self.dims[axis], prod(self.dims[axis + 1 :])
        start = leg.start - leg.coordinate * stride
        line = start // (stride * extent) * stride + start % stride
        return line, extent - 1 - leg.coordinate if way == DOWN else leg.coordinate

    def _links(self, axis: int, leg: Leg, message: Ints, step: Ints) -> Ints:
        extent, stride = self.dims[axis], prod(self.dims[axis + 1 :])
        down = leg.steps[message] < 0
        at = (leg.coordinate[message] + np.where(down, -step, step)) % extent
        rank = leg.start[message] + (at - leg.coordinate[message]) * stride
        return np.asarray((2 * axis + down) * self.p + rank)

    def _along(self, axis: int, way: int, leg: Leg, amount: Floats) -> Floats:
        extent, stride = self.dims[axis], prod(self.dims[axis + 1 :])
        moving = np.flatnonzero(leg.steps < 0 if way == DOWN else leg.steps > 0)
        if not len(moving):
            return np.zeros(self.p)
        line, first = self._place_in_line(axis, way, Leg(*(column[moving] for column in leg)))
        carried = _carried(line, first, np.abs(leg.steps[moving]), amount[moving], self.p // extent, extent)
        if way == DOWN:
            carried = carried[:, ::-1]
        return carried.reshape(-1, stride, extent).transpose(0, 2, 1).reshape(-1)

    def _legs(self, source: Ints, target: Ints) -> list[Leg]:
        legs, at = [], source
        for axis, extent in enumerate(self.dims):
            stride = prod(self.dims[axis + 1 :])
            here, there = source // stride % extent, target // stride % extent
            steps = there - here
            if self.wraps:
                up = steps % extent
                steps = np.where(2 * up <= extent, up, up - extent)
            legs.append(Leg(at, here, steps))
            at = at + (there - here) * stride
        return legs

    def _axis(self, axis: int) -> str:
        return AXES[axis] if len(self.dims) <= len(AXES) else f"d{axis}"


def _carried(line: Ints, first: Ints, steps: Ints, amount: Floats, lines: int, extent: int) -> NDArray[np.float64]:
    """What crosses each place of each line, by differences; a way past the end goes on at the beginning."""
    end = first + steps
    width = 2 * extent + 1
    changes = np.bincount(line * width + first, amount, lines * width)
    changes -= np.bincount(line * width + end, amount, lines * width)
    unwound = np.cumsum(changes.reshape(lines, width), axis=1)
    return np.asarray(unwound[:, :extent] + unwound[:, extent : 2 * extent])
