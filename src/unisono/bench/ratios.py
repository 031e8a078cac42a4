"""Our time over the best peer's, round by round: both have seen the machine in the same state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .bandwidth import bandwidths
from .cells import Cell
from .results import Measurement, Results


class Spread(NamedTuple):
    """The middle of some figures, and where half of them are."""

    lower: float
    median: float
    upper: float


def spread(values: Sequence[float]) -> Spread:
    """Quartiles; between two figures on the line that joins them."""
    lower, median, upper = np.quantile(np.asarray(values, np.float64), (0.25, 0.5, 0.75))
    return Spread(float(lower), float(median), float(upper))


def paired_ratios(ours: dict[int, float], peers: Sequence[dict[int, float]]) -> list[float]:
    """For each round in which we and a peer have a time: ours over the smallest of theirs."""
    best: dict[int, float] = {}
    for times in peers:
        for round_, time in times.items():
            best[round_] = min(time, best.get(round_, time))
    return [time / best[round_] for round_, time in sorted(ours.items()) if round_ in best]


class Standing(NamedTuple):
    """One contestant in one cell."""

    cell: Cell
    contestant: str
    time: Spread  # microseconds
    ratio: Spread | None  # to the best peer; of us only
    algorithm: str | None


def standings(results: Results) -> list[Standing]:
    """Of everybody in every cell, in the order of the cells; those of us first."""
    found = []
    for cell in results.cells:
        times = {name: _times(results, cell, name) for name in (*results.ours, *results.peers)}
        peers = [times[name] for name in results.peers]
        for name, by_round in times.items():
            if by_round:
                ratios = paired_ratios(by_round, peers) if name in results.ours else []
                found.append(
                    Standing(
                        cell,
                        name,
                        spread(list(by_round.values())),
                        spread(ratios) if ratios else None,
                        _algorithm(results, cell, name),
                    )
                )
    return found


def summary(results: Results) -> list[dict[str, Any]]:
    """The standings as plain values."""
    rows = []
    for one in standings(results):
        algorithm_bandwidth, bus_bandwidth = bandwidths(one.cell, one.time.median)
        rows.append(
            {
                **one.cell._asdict(),
                "contestant": one.contestant,
                "time_us": one.time._asdict(),
                "algorithm_bandwidth": algorithm_bandwidth,
                "bus_bandwidth": bus_bandwidth,
                "ratio": one.ratio and one.ratio._asdict(),
                "algorithm": one.algorithm,
            }
        )
    return rows


def _times(results: Results, cell: Cell, contestant: str) -> dict[int, float]:
    return {one.round: one.median_us for one in _of(results, cell, contestant)}


def _algorithm(results: Results, cell: Cell, contestant: str) -> str | None:
    """The last one; a round may choose another where the choice follows measurements."""
    used = [one.algorithm for one in _of(results, cell, contestant)]
    return used[-1] if used else None


def _of(results: Results, cell: Cell, contestant: str) -> list[Measurement]:
    return [one for one in results.measurements if one.cell == cell and one.contestant == contestant]
