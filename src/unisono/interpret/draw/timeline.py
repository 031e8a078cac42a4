"""When a schedule does what: every round takes as long as its busiest rank needs for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...schedule.ir import COPY, Ints
from ...schedule.schedule import Messages, Table
from ..machine import Machine

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Timeline:
    """Seconds, per round and rank; ``start`` is per round, and has the end of the last as one more entry."""

    start: Floats
    starting_out: Floats
    starting_in: Floats
    out: Floats
    into: Floats
    reduced: Floats

    @property
    def startup(self) -> Floats:
        return np.maximum(self.starting_out, self.starting_in)

    @property
    def transit(self) -> Floats:
        return np.maximum(self.out, self.into)

    @property
    def total(self) -> float:
        return float(self.start[-1])

    @property
    def busy(self) -> float:
        """The share of the time in which the links of all ranks, in both directions, carry data."""
        lanes = 2 * self.out.shape[1]
        return float((self.out + self.into).sum() / (lanes * self.total)) if self.total > 0 else 0.0

    @property
    def parts(self) -> tuple[float, float, float]:
        """Seconds of start-up, transit and reduction on the way of the busiest rank of each round."""
        busiest = (self.startup + self.transit + self.reduced).argmax(axis=1)
        way = np.arange(len(busiest)), busiest
        return float(self.startup[way].sum()), float(self.transit[way].sum()), float(self.reduced[way].sum())


def schedule_time(table: Table, nbytes: int, machine: Machine) -> Timeline:
    """A round takes α + max(bytes out, bytes in)·β + bytes reduced·γ of its busiest rank."""
    layout, (alpha, beta), gamma = table.layout(nbytes), machine.link, machine.gamma
    starting_out, starting_in, out, into, reduced = (np.zeros((table.rounds, table.p)) for _ in range(5))
    for rows, starting, sent in ((table.puts, starting_out, out), (table.gets, starting_in, into)):
        starting[rows.round, rows.rank] = alpha
        np.add.at(sent, (rows.round, rows.rank), beta * layout.nbytes(rows.first, rows.count))
    for adding in (table.gets, table.moves):
        added = np.where(adding.how == COPY, 0, layout.nbytes(adding.first, adding.count))
        np.add.at(reduced, (adding.round, adding.rank), gamma * added)
    lasts = (np.maximum(starting_out, starting_in) + np.maximum(out, into) + reduced).max(axis=1)
    return Timeline(np.concatenate([[0.0], np.cumsum(lasts)]), starting_out, starting_in, out, into, reduced)


def format_seconds(seconds: float) -> str:
    """Three digits and a unit."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns" if seconds else "0 s"


def describe(timeline: Timeline) -> str:
    """Where the time goes, in a line."""
    if timeline.total == 0:
        return "takes no time"
    shares = zip(("start-up α", "transit β", "reducing γ"), timeline.parts, strict=True)
    spent = ", ".join(f"{name} {_percent(part / timeline.total)}" for name, part in shares if part)
    return f"{format_seconds(timeline.total)} in all: {spent}; links busy {_percent(timeline.busy)} of the time"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.0095 or share == 0 else "< 1 %"


class Flights(NamedTuple):
    """Messages, with the seconds after their round's start-up when they leave and have arrived."""

    round: Ints
    source: Ints
    target: Ints
    leaves: Floats
    arrives: Floats


def flights(table: Table, nbytes: int, machine: Machine, rounds: int) -> Flights:
    """The messages of the first rounds; a rank sends and receives one after the other, nearest above first."""
    rows = Messages(*(column[: np.searchsorted(table.puts.round, rounds)] for column in table.puts))
    distance = (rows.peer - rows.rank) % table.p
    keys, message = np.unique((rows.round * table.p + distance) * table.p + rows.rank, return_inverse=True)
    sizes = np.bincount(message, table.layout(nbytes).nbytes(rows.first, rows.count), len(keys))
    seconds = (machine.link.beta * sizes).astype(np.float64)
    round_, source = keys // table.p**2, keys % table.p
    target = (source + keys // table.p) % table.p
    leaves = _running_sum(seconds, round_ * table.p + source) - seconds
    arrives = np.maximum(_running_sum(seconds, round_ * table.p + target), leaves + seconds)
    return Flights(round_, source, target, leaves, arrives)


def _running_sum(values: Floats, group: Ints) -> Floats:
    """Cumulative sums within groups, in the listed order."""
    order = np.argsort(group, kind="stable")
    sums = np.cumsum(values[order])
    first = np.searchsorted(group[order], group[order])
    result = np.empty_like(sums)
    result[order] = sums - (sums[first] - values[order][first])
    return result
