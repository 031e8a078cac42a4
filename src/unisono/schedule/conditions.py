"""What each collective promises: who holds which block before, and whose contributions must be in it after.

Conditions are written for a rank and a block (ints, or arrays that broadcast). ``before`` says whether the rank
starts with its own contribution to the block. ``after`` gives the interval of ranks whose contributions the block
must hold in the end; an empty interval promises nothing, and the block is not the caller's memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from .arithmetic import ceil_log2, where
from .ir import Number


class Place(NamedTuple):
    """A block of a rank, in a collective among p ranks of which the first ``workers`` contribute and receive."""

    p: int
    rank: Number
    block: Number
    root: int
    workers: int


Interval = tuple[Number, Number]
NOTHING: Interval = (0, 0)


class Bound(NamedTuple):
    """No algorithm has fewer rounds, or sends or reduces fewer bytes one after the other, than this."""

    rounds: int
    bytes: float
    reduced: float


@dataclass(frozen=True)
class Collective:
    """A before and an after, and the cost that nobody can get below.

    ``blocks`` is how many blocks the collective has; None where the algorithm is free to cut the vector as it likes.
    ``total(p, n)`` is how many bytes they have together, n being what one caller hands in or gets out.
    """

    name: str
    before: Callable[[Place], Any]
    after: Callable[[Place], Interval]
    bound: Callable[[int, float], Bound]
    rooted: bool = False
    reduces: bool = False
    blocks: Callable[[int], int] | None = None
    total: Callable[[int, int], int] = lambda p, n: n
    idempotent: bool = False


def one(rank: Number) -> Interval:
    """The contribution of one rank."""
    return rank, rank + 1


def at(condition: Any, interval: Interval) -> Interval:
    """The interval where the condition holds, nothing elsewhere."""
    return where(condition, interval[0], 0), where(condition, interval[1], 0)


def everyone(place: Place) -> Interval:
    return 0, place.workers


def bound(nbytes: Callable[[float, float], float], reduced: Callable[[float, float], float] = lambda n, f: 0.0) -> Any:
    """A bound from its terms in n and f = (p-1)/p; with one rank there is nothing to do."""

    def of(p: int, n: float) -> Bound:
        f = (p - 1) / p
        return Bound(ceil_log2(p), nbytes(n, f), reduced(n, f)) if p > 1 else Bound(0, 0.0, 0.0)

    return of


COLLECTIVES = {
    collective.name: collective
    for collective in (
        Collective(
            "broadcast",
            before=lambda x: x.rank == x.root,
            after=lambda x: one(x.root),
            bound=bound(lambda n, f: n),
            rooted=True,
        ),
        Collective(
            "reduce",
            before=lambda x: x.rank < x.workers,
            after=lambda x: at(x.rank == x.root, everyone(x)),
            bound=bound(lambda n, f: n, lambda n, f: f * n),
            rooted=True,
            reduces=True,
        ),
        Collective(
            "scatter",
            before=lambda x: x.rank == x.root,
            after=lambda x: at(x.rank == x.block, one(x.root)),
            bound=bound(lambda n, f: f * n),
            rooted=True,
            blocks=lambda p: p,
        ),
        Collective(
            "gather",
            before=lambda x: x.rank == x.block,
            after=lambda x: at(x.rank == x.root, one(x.block)),
            bound=bound(lambda n, f: f * n),
            rooted=True,
            blocks=lambda p: p,
        ),
        Collective(
            "allgather",
            before=lambda x: x.rank == x.block,
            after=lambda x: one(x.block),
            bound=bound(lambda n, f: f * n),
            blocks=lambda p: p,
        ),
        Collective(
            "reduce_scatter",
            before=lambda x: x.rank < x.workers,
            after=lambda x: at(x.rank == x.block, everyone(x)),
            bound=bound(lambda n, f: f * n, lambda n, f: f * n),
            reduces=True,
            blocks=lambda p: p,
        ),
        Collective(
            "allreduce",
            before=lambda x: x.rank < x.workers,
            after=lambda x: at(x.rank < x.workers, everyone(x)),
            bound=bound(lambda n, f: 2 * f * n, lambda n, f: f * n),
            reduces=True,
        ),
        Collective(
            "alltoall",
            before=lambda x: x.block // x.p == x.rank,
            after=lambda x: at(x.block % x.p == x.rank, one(x.block // x.p)),
            bound=bound(lambda n, f: f * n),
            blocks=lambda p: p * p,
            total=lambda p, n: p * n,
        ),
        Collective(
            "scan",
            before=lambda x: x.rank < x.workers,
            after=lambda x: (0 * x.rank, x.rank + 1),
            bound=bound(lambda n, f: n, lambda n, f: n),
            reduces=True,
        ),
        Collective(
            "barrier",
            before=lambda x: x.rank < x.workers,
            after=everyone,
            bound=bound(lambda n, f: 0.0),
            idempotent=True,
            reduces=True,
            blocks=lambda p: 1,
            total=lambda p, n: 0,
        ),
    )
}
