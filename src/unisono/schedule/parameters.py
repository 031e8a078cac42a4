"""The choices that algorithms leave open, their defaults, and what they may be."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from .algorithm import Parameter
from .arithmetic import near_equal_factors
from .hierarchy import equal_hosts


def half(p: int) -> int:
    """Half of the ranks, at least one."""
    return max(1, p // 2)


def is_whole(value: object) -> bool:
    """A number such as 3, and not True or 3.0."""
    return isinstance(value, int) and not isinstance(value, bool)


def are_whole(value: object) -> bool:
    """A tuple of numbers, none below 0."""
    return isinstance(value, tuple) and all(is_whole(x) and x >= 0 for x in value)


SEGMENTS = Parameter(lambda p: 8, lambda p, k: is_whole(k) and k >= 1, "a whole number from 1 up")
ONE_SEGMENT = replace(SEGMENTS, default=lambda p: 1)
SERVERS = Parameter(half, lambda p, k: is_whole(k) and 1 <= k <= p, "a whole number from 1 to that of the ranks")
FEWER_SERVERS = Parameter(
    half,
    lambda p, k: is_whole(k) and (1 <= k < p or k == p == 1),
    "a whole number from 1 to one less than that of the ranks",
)
SHARES = Parameter(
    lambda p: (1,) * p,
    lambda p, shares: are_whole(shares) and len(shares) == p and sum(shares) > 0,
    "a whole number for each rank, not all 0",
)
HOSTS = Parameter(
    equal_hosts,
    lambda p, hosts: are_whole(hosts) and sum(hosts) == p and 0 not in hosts,
    "the number of ranks of each host, together all ranks",
)


def mesh_of(dimensions: int) -> Parameter:
    """The extents of a mesh of all ranks."""
    return Parameter(
        lambda p: near_equal_factors(p, dimensions),
        lambda p, dims: are_whole(dims) and prod(dims) == p,
        "the extents of a mesh of all ranks",
    )


MESH_2D, MESH_3D = mesh_of(2), mesh_of(3)
