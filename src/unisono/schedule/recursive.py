"""Recursive doubling and halving: partners at distance 1, 2, 4, … exchange ever larger runs of blocks.

For p that is not a power of two, p = 2^l + extra, the first ``extra`` odd ranks hand their part to the even rank
below them, 2^l core ranks go through the rounds, and the odd ranks get the result back.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from .arithmetic import ceil_log2, floor_log2, in_rank_order, only, smaller, where
from .combine import dual, on, then
from .ir import ALL, DATA, EVERY_BLOCK, REDUCE_AFTER, REDUCE_BEFORE, TEMP, Do, Get, Number, Put, Rounds, Span
from .pattern import Pattern, all_alike, pattern
from .tree import mst_gather, mst_scatter


class Core(NamedTuple):
    """The 2^l ranks that go through the rounds; the others sit them out."""

    size: int
    extra: int

    @classmethod
    def of(cls, p: int) -> Core:
        size = 1 << floor_log2(p)
        return cls(size, p - size)

    def host(self, r: Number) -> Any:
        """Does this core rank act for the odd rank above it, too?"""
        return (r < 2 * self.extra) & (r % 2 == 0)

    def guest(self, r: Number) -> Any:
        """Is this an odd rank that is represented by the one below it?"""
        return (r < 2 * self.extra) & (r % 2 == 1)

    def number(self, r: Number) -> Number:
        """The position of a rank in the core (that of the host for a guest)."""
        return where(r < 2 * self.extra, r // 2, r - self.extra)

    def rank(self, i: Number) -> Number:
        """The i-th rank of the core, which is also the first of its blocks."""
        return i + smaller(i, self.extra)


def core_alike(p: int, r: Number) -> tuple[Number, Number]:
    """Hosts, guests and the rest."""
    core = Core.of(p)
    return 1 * core.host(r) + 2 * core.guest(r), 0 * r


def power_of_two_alike(p: int, r: Number) -> tuple[Number, Number]:
    """All ranks for a power of two; otherwise none: the more hosts a run of core ranks has, the more blocks."""
    return (0 * r if Core.of(p).extra == 0 else r), 0 * r


@pattern(alike=power_of_two_alike)
def recursive_doubling_allgather(p: int, r: Number) -> Rounds:
    """Partners at distance 1, 2, 4, … exchange all that they have."""
    core = Core.of(p)
    if core.extra:
        yield Put(only(core.guest(r), r - 1), Span(r)), Get(only(core.host(r), r + 1), Span(r + 1))
    i, is_core = core.number(r), (r >= 2 * core.extra) | (r % 2 == 0)
    for k in range(floor_log2(p)):
        size = 1 << k
        mine, theirs = i & -size, (i & -size) ^ size
        partner = only(is_core, core.rank(i ^ size))
        yield Put(partner, _run(core, mine, size)), Get(partner, _run(core, theirs, size))
    if core.extra:
        yield (
            Put(only(core.host(r), r + 1), Span((r + 2) % p, p - 1)),
            Get(only(core.guest(r), r - 1), Span((r + 1) % p, p - 1)),
        )


def _run(core: Core, i: Number, count: int) -> Span:
    return Span(core.rank(i), core.rank(i + count) - core.rank(i))


recursive_halving_reduce_scatter = dual(
    recursive_doubling_allgather,
    name="recursive_halving_reduce_scatter",
    summary="Partners at distance p/2, p/4, … exchange the half that the other needs, and add.",
    reducing=True,
)
recursive_doubling_broadcast = then(
    mst_scatter,
    recursive_doubling_allgather,
    name="recursive_doubling_broadcast",
    summary="Scatter the blocks, then recursive doubling hands them out.",
)
recursive_halving_reduce = then(
    recursive_halving_reduce_scatter,
    mst_gather,
    name="recursive_halving_reduce",
    summary="Recursive halving adds up, then the root gathers the blocks.",
)


@pattern(alike=all_alike)
def hypercube_exchange(p: int, r: Number) -> Rounds:
    """Partners at distance 1, 2, 4, … exchange their sums so far, and add; p is a power of two."""
    snapshot = Span(0, EVERY_BLOCK, TEMP)
    for k in range(floor_log2(p)):
        partner = r ^ (1 << k)
        yield Do(snapshot, DATA), Put(partner, snapshot), Get(partner, ALL, in_rank_order(partner, r))


def folded(inner: Pattern, *, name: str, summary: str) -> Pattern:
    """An allreduce for powers of two, made one for any p: guests add their vectors to their hosts' and wait."""

    def fold(p: int, r: Number) -> Rounds:
        core = Core.of(p)
        if core.extra:
            yield Put(only(core.guest(r), r - 1), ALL), Get(only(core.host(r), r + 1), ALL, REDUCE_AFTER)
        member = (r >= 2 * core.extra) | (r % 2 == 0)
        yield from on(inner(core.size, core.number(r)), real=core.rank, member=member)
        if core.extra:
            yield Put(only(core.host(r), r + 1), ALL), Get(only(core.guest(r), r - 1), ALL)

    return Pattern(fold, name, summary, alike=core_alike)


recursive_doubling_allreduce = folded(
    hypercube_exchange,
    name="recursive_doubling_allreduce",
    summary="Partners at distance 1, 2, 4, … exchange their sums so far, and add: fewest rounds.",
)
halving_doubling_allreduce = folded(
    then(recursive_halving_reduce_scatter, recursive_doubling_allgather, name="", summary=""),
    name="halving_doubling_allreduce",
    summary="Recursive halving to add up, recursive doubling to hand out.",
)


@pattern()
def recursive_doubling_scan(p: int, r: Number) -> Rounds:
    """Every rank adds the partial sum of the rank 1, 2, 4, … below it."""
    snapshot = Span(0, EVERY_BLOCK, TEMP)
    for k in range(ceil_log2(p)):
        above, below = r + (1 << k), r - (1 << k)
        yield (
            Do(snapshot, DATA, when=above < p),
            Put(only(above < p, above), snapshot),
            Get(only(below >= 0, below), ALL, REDUCE_BEFORE),
        )
