"""When ranks that share memory go through stages, although they could use each other's memory directly."""

from __future__ import annotations

HALF = 1 << 19
STAGED = 16 << 20
STAGED_COPIES = {"broadcast": 4 << 20, "allgather": 4 << 20, "alltoall": 4 << 20, "scatter": 2 << 20, "gather": 2 << 20}
"""Bytes of the vectors of all ranks together, up to which they go through stages even if ranks could use each other's
memory directly: system calls, which look up every page, cost more than a copy that stays in the cache. What is only
copied, and not reduced, is copied twice then."""


def prefers_stages(collective: str, p: int, nbytes: int) -> bool:
    """Do vectors of so many bytes go through stages, if there is the choice?"""
    if collective == "broadcast" and p == 2:
        return nbytes < HALF  # of two ranks, one would wait for the other's copy
    return nbytes * p <= STAGED_COPIES.get(collective, STAGED)
