"""A user's own algorithm: verified, then used like a built-in one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from ..errors import ScheduleError
from ..schedule.algorithm import Algorithm, Parameter
from ..schedule.catalog import add, collective_named
from ..schedule.ir import Ints, Rounds
from ..schedule.pattern import Alike, Pattern, pattern
from ..schedule.schedule import Schedule, Table
from .price import price
from .verify import check

RANKS = (*range(1, 18), 24, 31, 32, 33)
"""For so many ranks a new algorithm is verified."""


def register(
    collective: str,
    *,
    name: str | None = None,
    blocks: Callable[..., int] | None = None,
    parameters: Mapping[str, Parameter] | None = None,
    alike: Alike | None = None,
    shares: Callable[..., Ints] | None = None,
    workers: Callable[..., int] | None = None,
    paper: str = "",
) -> Callable[[Callable[..., Rounds]], Pattern]:
    """Add an algorithm to the catalogue, if it is right for every p and root that is tried.

        @unisono.register("allgather")
        def backward_ring(p, r):
            '''The ring, the other way round.'''
            t = rounds(p - 1)
            yield Put((r - 1) % p, Span((r + t) % p)), Get((r + 1) % p, Span((r + t + 1) % p))

    ``blocks(p, …)`` says into how many blocks the vector is cut (one per rank, unless said otherwise), ``parameters``
    has those of the pattern besides the root. ``alike`` declares which ranks do the same
    work, so that huge p can be priced; it is checked too. A wrong schedule raises a ScheduleError that says where.
    """

    def add_verified(generate: Callable[..., Rounds]) -> Pattern:
        made = generate if isinstance(generate, Pattern) else pattern(alike)(generate)
        kind = collective_named(collective)
        algorithm = Algorithm(
            collective=kind,
            name=name or made.name,
            pattern=made,
            blocks=blocks or kind.blocks or (lambda p: p),
            paper=paper,
            parameters=parameters or {},
            shares=shares,
            workers=workers,
        )
        for p in RANKS:
            for root in sorted({0, 1 % p, p // 2, p - 1}) if kind.rooted else [0]:
                schedule = algorithm.schedule(p, root)
                check(_unrolled(schedule))
                check_alike(schedule)
        add(algorithm)
        return made

    return add_verified


def _unrolled(schedule: Schedule) -> Table:
    try:
        return schedule.table
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        raise ScheduleError(
            f"{schedule.collective.name} '{schedule.name}' cannot be unrolled on {schedule.p} ranks: {error}. It must "
            "yield Puts, Gets and Dos whose fields are arithmetic on r that also works on an array of ranks: "
            "where(condition, yes, no) instead of if, only(condition, peer) for a peer that some ranks do not have"
        ) from error


def check_alike(schedule: Schedule) -> None:
    """Raise a ScheduleError if ranks that are declared alike do not do the same work."""
    nbytes = schedule.blocks * 8
    counted_once, one_by_one = (
        price(schedule, nbytes),
        price(replace(schedule, pattern=_unlike(schedule.pattern)), nbytes),
    )
    for what in ("time", "rounds", "wire", "arithmetic", "sent", "received", "reduced"):
        if not np.allclose(getattr(counted_once, what), getattr(one_by_one, what), rtol=1e-9):
            where = f"{schedule.collective.name} '{schedule.name}' on {schedule.p} ranks, root {schedule.root}"
            raise ScheduleError(
                f"{where}: ranks are declared alike, but {what} differs when they are counted one by one"
            )


def _unlike(pattern: Pattern) -> Pattern:
    return replace(pattern, alike=None, stage=None, parts=tuple(map(_unlike, pattern.parts)))
