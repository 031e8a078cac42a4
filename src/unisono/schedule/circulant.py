"""Circulant graphs: partners a fixed distance ahead and behind, so that any p takes ⌈log₂ p⌉ rounds."""

from __future__ import annotations

from .arithmetic import ceil_log2, where
from .combine import dual, then
from .ir import ALL, DATA, EVERY_BLOCK, INPUT, REDUCE_BEFORE, TEMP, Do, Get, Number, Put, Rounds, Span, each
from .pattern import all_alike, pattern


@pattern(alike=all_alike)
def bruck_allgather(p: int, r: Number) -> Rounds:
    """Every rank sends all that it has 1, 2, 4, … ranks back."""
    for k in range(ceil_log2(p)):
        distance = 1 << k
        count = min(distance, p - distance)
        ahead, behind = (r + distance) % p, (r - distance) % p
        yield Put(behind, Span(r, count)), Get(ahead, Span(ahead, count))


@pattern(alike=all_alike)
def circulant_allgather(p: int, r: Number) -> Rounds:
    """As Bruck's, at distances that halve p rounded up, so that sums can take the same way backwards."""
    for k in reversed(range(ceil_log2(p))):
        reached, distance = -(-p >> k), -(-p >> (k + 1))
        ahead, behind = (r + distance) % p, (r - distance) % p
        yield Put(behind, Span(r, reached - distance)), Get(ahead, Span(ahead, reached - distance))


circulant_reduce_scatter = dual(
    circulant_allgather,
    name="circulant_reduce_scatter",
    summary="Every rank sends partial sums p/2, p/4, … ranks ahead: ⌈log₂ p⌉ rounds for any p.",
    reducing=True,
)
circulant_allreduce = then(
    circulant_reduce_scatter,
    circulant_allgather,
    name="circulant_allreduce",
    summary="Circulant reduce-scatter, then its mirror image.",
)


@pattern(alike=all_alike)
def bruck_alltoall(p: int, r: Number) -> Rounds:
    """A block d ranks from home travels by the binary digits of d: ⌈log₂ p⌉ rounds, each block sent up to as often."""
    for k in range(ceil_log2(p)):
        hop = 1 << k
        distance = each(p)[each(p) & hop > 0]
        travelled = distance % hop
        start = where(travelled == 0, INPUT, TEMP)
        end = where(distance < 2 * hop, DATA, TEMP)
        yield (
            Put((r + hop) % p, Span(_block(p, r - travelled, distance), 1, start)),
            Get((r - hop) % p, Span(_block(p, r - hop - travelled, distance), 1, end)),
        )


def _block(p: int, source: Number, distance: Number) -> Number:
    return source % p * p + (source + distance) % p


@pattern(alike=all_alike)
def dissemination_barrier(p: int, r: Number) -> Rounds:
    """Every rank tells the one 1, 2, 4, … ahead whom it has heard of."""
    snapshot = Span(0, EVERY_BLOCK, TEMP)
    for k in range(ceil_log2(p)):
        ahead, behind = (r + (1 << k)) % p, (r - (1 << k)) % p
        yield Do(snapshot, DATA), Put(ahead, snapshot), Get(behind, ALL, REDUCE_BEFORE)
