"""Does a schedule reduce from rank 0 to the last, one after the other?

Floating-point sums depend on the order of their operands and on how they are bracketed. Schedules that fold from the
left give the same bits, whatever the blocks are.
"""

from __future__ import annotations

from typing import NamedTuple

from ..schedule.schedule import Schedule
from .combines import Combining, Home
from .lower import Area


class Operands(NamedTuple):
    """The ranks from ``first`` up to, not including, ``last``, folded from the left or not."""

    first: int
    last: int
    from_the_left: bool


def folds_from_the_left(schedule: Schedule) -> bool:
    """Is every result rank 0 ∘ rank 1 ∘ …, bracketed from the left?"""
    combining = Combining(schedule)
    combining.run()
    values: dict[Home, Operands] = {}
    for combine in combining.steps:
        sources = [values.get(home) or Operands(home.rank, home.rank + 1, True) for home in combine.sources]
        values |= dict.fromkeys(combine.targets, _folded(sources))
    return all(value.from_the_left for home, value in values.items() if home.area == Area.OUT)


def _folded(sources: list[Operands]) -> Operands:
    whole = sources[0]
    for operand in sources[1:]:
        is_next = operand.first == whole.last and operand.last == operand.first + 1
        whole = Operands(whole.first, operand.last, whole.from_the_left and is_next)
    return whole
