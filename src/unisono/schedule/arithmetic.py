"""Rank arithmetic that works alike on one rank (an int) and on a column of ranks (an array)."""

from __future__ import annotations

from typing import Any

import numpy as np

from .ir import NOBODY, REDUCE_AFTER, REDUCE_BEFORE, Number, each


def where(condition: Any, yes: Number, no: Number) -> Number:
    """``yes if condition else no``, elementwise."""
    if isinstance(condition, np.ndarray):
        return np.where(condition, yes, no)
    return yes if condition else no


def only(condition: Any, peer: Number) -> Number:
    """The peer where the condition holds, NOBODY elsewhere."""
    return where(condition, peer, NOBODY)


def smaller(a: Number, b: Number) -> Number:
    """The elementwise minimum."""
    return where(a < b, a, b)


def ceil_log2(p: int) -> int:
    """⌈log₂ p⌉: how often p ranks can be halved."""
    return (p - 1).bit_length()


def floor_log2(p: int) -> int:
    """⌊log₂ p⌋."""
    return p.bit_length() - 1


def floor_log2_each(x: Number) -> Number:
    """⌊log₂ x⌋ of every number; -1 for 0."""
    return np.frexp(x)[1] - 1


def others(p: int, r: Number) -> Number:
    """Every rank but r, as lanes: upwards from r + 1, then downwards from r - 1.

    A rank that reduces in this order, higher ranks on the right and lower ones on the left, keeps rank order.
    """
    k = each(p - 1)
    return where(k < p - 1 - r, r + 1 + k, p - 2 - k)


def in_rank_order(source: Number, r: Number) -> Number:
    """How to reduce what came from ``source`` so that lower ranks stand on the left."""
    return where(source > r, REDUCE_AFTER, REDUCE_BEFORE)


def near_equal_factors(p: int, count: int) -> tuple[int, ...]:
    """p as a product of ``count`` factors that are as equal as p allows, largest first (a prime p: p, 1, …)."""
    if count == 1:
        return (p,)
    smallest = max(d for d in range(1, round(p ** (1 / count)) + 2) if p % d == 0 and d**count <= p)
    return (*near_equal_factors(p // smallest, count - 1), smallest)
