"""The nearest valid choice of extents: those that multiply out, by ratios as close to 1 as can be."""

from __future__ import annotations

from math import log
from typing import NamedTuple


class _Choice(NamedTuple):
    """How far the extents are from what was written, how many of them differ, and which they are."""

    distance: float
    changed: int
    extents: tuple[int, ...]


def nearest_extents(dims: tuple[int, ...], p: int) -> tuple[int, ...]:
    """As many extents as were written that multiply out to p; of those as near, the ones that change fewest."""
    divisors = [d for d in range(1, p + 1) if p % d == 0]
    best = {1: _Choice(0.0, 0, ())}  # by what the first ones multiply out to
    for extent in dims:
        reached: dict[int, _Choice] = {}
        for product, choice in best.items():
            for divisor in divisors:
                if p // product % divisor:
                    continue
                longer = _with(choice, divisor, extent)
                whole = product * divisor
                reached[whole] = min(longer, reached.get(whole, longer))
        best = reached
    return best[p].extents


def _with(choice: _Choice, divisor: int, extent: int) -> _Choice:
    distance = round(choice.distance + abs(log(divisor / extent)), 9)
    return _Choice(distance, choice.changed + (divisor != extent), (*choice.extents, divisor))
