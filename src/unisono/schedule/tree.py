"""Trees: the line of ranks is halved again and again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .arithmetic import ceil_log2, floor_log2_each, only, smaller, where
from .combine import dual, on, pipelined, then, together
from .direct import flat_gather
from .ir import ALL, REDUCE_AFTER, REDUCE_BEFORE, Get, Number, Put, Rounds, Span, rounds
from .pattern import pattern


def halvings(p: int, r: Number, root: int) -> Iterator[tuple[Any, Number, Number, Span]]:
    """Halve the line of ranks around r: is it still one, who holds the data, who begins the other half, its blocks."""
    first, last, holder = 0, p, root
    for _ in range(ceil_log2(p)):
        middle = (first + last + 1) // 2
        holder_low, r_low = holder < middle, r < middle
        other, end = where(holder_low, middle, first), where(holder_low, last, middle)
        yield last - first > 1, holder, other, Span(other, end - other)
        holder = where(holder_low == r_low, holder, other)
        first, last = where(r_low, first, middle), where(r_low, middle, last)


@pattern()
def mst_broadcast(p: int, r: Number, root: int) -> Rounds:
    """Halve the line of ranks; the holder sends to the half it is not in; repeat in both halves."""
    for live, holder, other, _ in halvings(p, r, root):
        yield Put(only(live & (r == holder), other), ALL), Get(only(live & (r == other), holder), ALL)


@pattern()
def mst_scatter(p: int, r: Number, root: int) -> Rounds:
    """As the broadcast, but the holder sends only the other half's blocks."""
    for live, holder, other, half in halvings(p, r, root):
        yield Put(only(live & (r == holder), other), half), Get(only(live & (r == other), holder), half)


mst_reduce = dual(
    mst_broadcast, name="mst_reduce", summary="The broadcast tree backwards: halves send to holders.", reducing=True
)
mst_gather = dual(
    mst_scatter, name="mst_gather", summary="The scatter tree backwards: halves hand in their blocks.", reducing=False
)
mst_allgather = then(
    mst_gather, mst_broadcast, name="mst_allgather", summary="Gather at one rank, broadcast from there."
)
flat_allgather = then(
    flat_gather, mst_broadcast, name="flat_allgather", summary="Every block straight to one rank, broadcast from there."
)
mst_reduce_scatter = then(
    mst_reduce, mst_scatter, name="mst_reduce_scatter", summary="Reduce to one rank, scatter from there."
)
mst_allreduce = then(
    mst_reduce, mst_broadcast, name="mst_allreduce", summary="Reduce to one rank, broadcast from there."
)


def chain_alike(p: int, r: Number, root: int, segments: int) -> tuple[Number, Number]:
    """The head only sends, the tail only receives; between them each rank does what the last one did, a round later."""
    place = (r - root) % p
    inner = (place > 0) & (place < p - 1)
    return where(inner, 1, where(place == 0, 0, 2)), where(inner, place - 1, 0)


@pattern(alike=chain_alike)
def pipelined_chain_broadcast(p: int, r: Number, root: int, segments: int) -> Rounds:
    """Every rank passes each segment on to the next rank while the one after it arrives."""
    place = (r - root) % p
    sent = rounds(p - 2 + segments if p > 1 else 0) - place
    received = sent + 1
    yield (
        Put(only((place < p - 1) & (sent >= 0) & (sent < segments), (r + 1) % p), Span(sent)),
        Get(only((place > 0) & (received >= 0) & (received < segments), (r - 1) % p), Span(received)),
    )


def in_order_tree_reduce(p: int, r: Number) -> Rounds:
    """A binary tree numbered in order, root 0: rank r sends in the round of its lowest set bit."""
    lowest_bit = where(r > 0, r & -r, p + p)
    for height in range(ceil_log2(p)):
        bit = 1 << height
        parent = where((r ^ bit | 2 * bit) < p, r ^ bit | 2 * bit, r ^ bit)
        below = only(lowest_bit == 2 * bit, r - bit)
        above = only((lowest_bit > bit) & (r + bit < p) & ((lowest_bit == 2 * bit) | (r + 2 * bit >= p)), r + bit)
        yield Put(only(lowest_bit == bit, parent), ALL), Get(below, ALL, REDUCE_BEFORE), Get(above, ALL, REDUCE_AFTER)


def place_in_tree(p: int, r: Number) -> Number:
    """When a rank of the in-order tree sends and receives, as one number: its height and that of its upper child."""
    height = floor_log2_each(where(r > 0, r & -r, 1 << ceil_log2(p)))
    upper_child = smaller(height, floor_log2_each(p - 1 - r) + 1)
    return height * (ceil_log2(p) + 1) + upper_child


def image_in_second_tree(p: int, r: Number) -> Number:
    """The second tree is the first one mirrored or shifted, so that a leaf of one is inside the other."""
    return p - 1 - r if p % 2 == 0 else (r - 1) % p


def two_tree_alike(p: int, r: Number) -> tuple[Number, Number]:
    """Ranks with the same places in both trees."""
    places = (ceil_log2(p) + 1) ** 2
    return place_in_tree(p, r) * places + place_in_tree(p, image_in_second_tree(p, r)), 0 * r


@pattern(alike=two_tree_alike)
def two_tree_reduce(p: int, r: Number) -> Rounds:
    """Half of the vector up one binary tree, half up another in which the leaves of the first are inside."""
    second = image_in_second_tree(p, r)
    rank_of = (lambda i: p - 1 - i) if p % 2 == 0 else (lambda i: (i + 1) % p)
    yield from together(
        on(in_order_tree_reduce(p, r), real=lambda i: i, blocks=1),
        on(in_order_tree_reduce(p, second), real=rank_of, blocks=1, first=lambda b: b + 1),
    )


two_tree_broadcast = dual(
    two_tree_reduce, name="two_tree_broadcast", summary="Each half of the vector down its tree.", reducing=False
)
double_binary_tree_allreduce = pipelined(
    then(two_tree_reduce, two_tree_broadcast, name="two_tree_allreduce", summary="", alike=two_tree_alike),
    name="double_binary_tree_allreduce",
    summary="Two binary trees, each for half of the vector; whoever is a leaf in one is inside the other.",
    width=lambda p: 2,
)
