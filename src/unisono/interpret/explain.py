"""Which algorithm for which vector? The price of every candidate, best first."""

from __future__ import annotations

from math import sqrt
from typing import Any

from ..schedule.algorithm import Algorithm
from ..schedule.catalog import algorithms
from ..schedule.schedule import Schedule
from .machine import DEFAULT, Machine
from .price import Price, price

MOST_SEGMENTS, MOST_PER_ROUND = 1 << 16, 256
"""In all, and for each round in which a pipeline fills: filling then takes 0.4 % of the time, and more gain nothing."""


def explain(collective: str, p: int, nbytes: int, machine: Machine = DEFAULT, root: int = 0) -> list[Price]:
    """The price of every algorithm of a collective, the best first; pipelines with the best number of segments.

    Algorithms in which not every rank contributes do less than was asked for, and come last.
    """
    prices = (best_price(algorithm, p, nbytes, machine, root) for algorithm in algorithms(collective))
    return sorted(prices, key=lambda candidate: (candidate.schedule.workers < p, candidate.time))


def best_price(
    algorithm: Algorithm,
    p: int,
    nbytes: int,
    machine: Machine = DEFAULT,
    root: int = 0,
    *,
    even: bool = False,
    **parameters: Any,
) -> Price:
    """The price of an algorithm, if it is a pipeline with the best number of segments.

    ``even``: of as many bytes more as make all blocks equal, so that ranks that are alike are counted once.
    """

    def price_with(**more: int) -> Price:
        schedule = algorithm.schedule(p, root, **parameters, **more)
        return price(schedule, even_bytes(schedule, nbytes) if even else nbytes, machine)

    if "segments" not in algorithm.parameters or "segments" in parameters:
        return price_with()
    whole = price_with(segments=1)
    segments = _best_segments(whole)
    return whole if segments == 1 else min(whole, price_with(segments=segments), key=lambda x: x.time)


def even_bytes(schedule: Schedule, nbytes: int) -> int:
    """So many bytes, or the next number that all blocks have the same of."""
    return -(-nbytes // schedule.blocks) * schedule.blocks


def _best_segments(whole: Price) -> int:
    """Where (rounds - 1 + k)(α + x/k) is least, x being what a round costs the whole vector beyond α."""
    alpha = whole.machine.link.alpha
    if whole.rounds < 2 or not whole.nbytes:
        return 1
    most = min(whole.nbytes, MOST_SEGMENTS, (whole.rounds - 1) * MOST_PER_ROUND)
    beyond_alpha = whole.time / whole.rounds - alpha
    return most if alpha == 0 else max(1, min(most, round(sqrt((whole.rounds - 1) * beyond_alpha / alpha))))
