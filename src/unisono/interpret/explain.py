"""Which algorithm for which vector? The price of every candidate, best first."""

from __future__ import annotations

from math import sqrt

from ..schedule.algorithm import Algorithm
from ..schedule.catalog import algorithms
from .machine import DEFAULT, Machine
from .price import Price, price

MOST_SEGMENTS = 1 << 16


def explain(collective: str, p: int, nbytes: int, machine: Machine = DEFAULT, root: int = 0) -> list[Price]:
    """The price of every algorithm of a collective, the best first; pipelines with the best number of segments.

    Algorithms in which not every rank contributes do less than was asked for, and come last.
    """
    prices = (best_price(algorithm, p, nbytes, machine, root) for algorithm in algorithms(collective))
    return sorted(prices, key=lambda candidate: (candidate.schedule.workers < p, candidate.time))


def best_price(algorithm: Algorithm, p: int, nbytes: int, machine: Machine = DEFAULT, root: int = 0) -> Price:
    """The price of an algorithm, if it is a pipeline with the best number of segments."""
    if "segments" not in algorithm.parameters:
        return price(algorithm.schedule(p, root), nbytes, machine)
    whole = price(algorithm.schedule(p, root, segments=1), nbytes, machine)
    segments = _best_segments(whole)
    if segments == 1:
        return whole
    return min(whole, price(algorithm.schedule(p, root, segments=segments), nbytes, machine), key=lambda x: x.time)


def _best_segments(whole: Price) -> int:
    """Where (rounds - 1 + k)(α + x/k) is least, x being what a round costs the whole vector beyond α."""
    alpha = whole.machine.link.alpha
    most = max(1, min(whole.nbytes, MOST_SEGMENTS))
    if whole.rounds < 2 or not whole.nbytes:
        return 1
    beyond_alpha = whole.time / whole.rounds - alpha
    return most if alpha == 0 else max(1, min(most, round(sqrt((whole.rounds - 1) * beyond_alpha / alpha))))
