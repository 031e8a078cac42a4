"""Choose an algorithm: by what was measured in shared memory, and by price elsewhere, with default constants."""

from __future__ import annotations

from functools import lru_cache

from ..interpret.explain import explain
from ..interpret.machine import Link, Machine
from ..schedule.catalog import find
from ..schedule.schedule import Schedule
from .shared import choose

HOST = Machine(Link(alpha=2e-6, beta=1 / 5e9), gamma=1 / 10e9)
"""Shared memory: 2 µs to start a message, 5 GB/s."""


MOST_MESSAGES = 4096
"""Schedules with more messages run over links: to share memory, each rank has to look at the messages of all."""


def select(
    collective: str, p: int, nbytes: int, root: int = 0, *, reproducible: bool = False, shares_memory: bool = False
) -> Schedule:
    """The best schedule for a vector of so many bytes, the same on every rank.

    Reproducible are those that fold from the left.
    """
    choice = choose(collective, p, nbytes) if shares_memory and p * p * 2 <= MOST_MESSAGES else None
    if choice and not (reproducible and not is_reproducible(collective, choice.name, p)):
        return find(collective, choice.name).schedule(p, root, **choice.parameters)
    name, parameters = _best(collective, p, 1 << max(0, nbytes - 1).bit_length(), reproducible)
    return find(collective, name).schedule(p, root, **dict(parameters))


@lru_cache(4096)
def _best(collective: str, p: int, nbytes: int, reproducible: bool) -> tuple[str, tuple[tuple[str, object], ...]]:
    """Sizes are rounded up to a power of two, so that few have to be priced."""
    for candidate in explain(collective, p, nbytes, HOST):
        schedule = candidate.schedule
        if schedule.workers < p or (reproducible and not is_reproducible(collective, schedule.name, p)):
            continue
        chosen = {name: value for name, value in schedule.parameters.items() if name != "workers"}
        return schedule.name, tuple(chosen.items())
    raise LookupError(f"no algorithm for {collective}")


@lru_cache(4096)
def is_reproducible(collective: str, name: str, p: int) -> bool:
    """Does the algorithm fold from the left, so that its bits depend on nothing but the operands?"""
    from ..interpret.fold import folds_from_the_left  # only who asks for it pays for the import

    return folds_from_the_left(find(collective, name).schedule(p))
