"""The ring: every rank talks to its neighbours only, and all links are busy all the time."""

from __future__ import annotations

from .combine import dual, then
from .ir import Get, Number, Put, Rounds, Span, rounds
from .pattern import all_alike, pattern
from .tree import mst_gather, mst_scatter


@pattern(alike=all_alike)
def ring_allgather(p: int, r: Number) -> Rounds:
    """In each of p-1 rounds every rank passes on the block that it received last."""
    t = rounds(p - 1)
    yield Put((r + 1) % p, Span((r - t) % p)), Get((r - 1) % p, Span((r - t - 1) % p))


@pattern(alike=all_alike)
def backward_ring_allgather(p: int, r: Number) -> Rounds:
    """The same against the direction of the ring, so that its dual goes with it."""
    t = rounds(p - 1)
    yield Put((r - 1) % p, Span((r + t) % p)), Get((r + 1) % p, Span((r + t + 1) % p))


ring_reduce_scatter = dual(
    backward_ring_allgather,
    name="ring_reduce_scatter",
    summary="In each of p-1 rounds a growing sum of every block moves on by one rank.",
    reducing=True,
)
ring_allreduce = then(
    ring_reduce_scatter,
    ring_allgather,
    name="ring_allreduce",
    summary="Once round the ring to add up, once more to hand out.",
)
ring_broadcast = then(
    mst_scatter,
    ring_allgather,
    name="ring_broadcast",
    summary="Scatter the blocks, then a ring hands them out.",
)
ring_reduce = then(
    ring_reduce_scatter,
    mst_gather,
    name="ring_reduce",
    summary="A ring adds up, then the root gathers the blocks.",
)
