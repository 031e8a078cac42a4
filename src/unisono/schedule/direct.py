"""Everybody talks to everybody, or to one: one round, as many messages as there are peers."""

from __future__ import annotations

from .arithmetic import in_rank_order, only, others
from .combine import dual, pipelined, then
from .ir import ALL, EVERY_BLOCK, INPUT, Get, Number, Put, Rounds, Span, rounds
from .pattern import all_alike, pattern, root_and_others


@pattern(alike=root_and_others)
def flat_broadcast(p: int, r: Number, root: int) -> Rounds:
    """The root sends the whole vector to every rank."""
    yield Put(only(r == root, others(p, root)), ALL), Get(only(r != root, root), ALL)


@pattern(alike=root_and_others)
def flat_scatter(p: int, r: Number, root: int) -> Rounds:
    """The root sends every rank its block."""
    peer = others(p, root)
    yield Put(only(r == root, peer), Span(peer)), Get(only(r != root, root), Span(r))


@pattern(alike=all_alike)
def direct_allgather(p: int, r: Number) -> Rounds:
    """Every rank sends its block to every other rank."""
    peer = others(p, r)
    yield Put(peer, Span(r)), Get(peer, Span(peer))


@pattern(alike=all_alike)
def exchange_allreduce(p: int, r: Number) -> Rounds:
    """Every rank sends its whole vector to every other rank and adds up what arrives."""
    peer = others(p, r)
    yield Put(peer, Span(0, EVERY_BLOCK, INPUT)), Get(peer, ALL, in_rank_order(peer, r))


@pattern(alike=all_alike)
def pairwise_alltoall(p: int, r: Number) -> Rounds:
    """In round t every rank sends one block t + 1 ranks ahead. Block s·p + d goes from rank s to rank d."""
    distance = rounds(p - 1) + 1
    to, source = (r + distance) % p, (r - distance) % p
    yield Put(to, Span(r * p + to, 1, INPUT)), Get(source, Span(source * p + r))


flat_reduce = dual(
    flat_broadcast, name="flat_reduce", summary="Every rank sends its whole vector to the root.", reducing=True
)
flat_gather = dual(flat_scatter, name="flat_gather", summary="Every rank sends its block to the root.", reducing=False)
direct_reduce_scatter = dual(
    direct_allgather,
    name="direct_reduce_scatter",
    summary="Every rank sends every other rank that rank's block.",
    reducing=True,
)
direct_broadcast = then(
    flat_scatter,
    direct_allgather,
    name="direct_broadcast",
    summary="The root sends each rank one block, and each rank sends that to all others.",
)
direct_reduce = then(
    direct_reduce_scatter,
    flat_gather,
    name="direct_reduce",
    summary="Each rank adds up one block, and sends it to the root.",
)
flat_allreduce = then(
    flat_reduce,
    flat_broadcast,
    name="flat_allreduce",
    summary="Everything to one rank, which adds up and sends the sum back: the lecture's first program.",
)
direct_allreduce = then(
    direct_reduce_scatter,
    direct_allgather,
    name="direct_allreduce",
    summary="Each rank adds up one block for all, in one round, and hands it out in another.",
    alike=all_alike,
)
weighted_allreduce = pipelined(
    direct_allreduce,
    name="weighted_allreduce",
    summary="As direct, in segments, with a smaller share to add up for a rank whose link is weak.",
    width=lambda p: p,
)
