"""When ranks that share memory go through stages, although they could use each other's memory directly."""

from __future__ import annotations

HALF = 1 << 19
STAGED, STAGED_OF_FEW = 32 << 20, 16 << 20
STAGED_COPIES = {"broadcast": 4 << 20, "allgather": 4 << 20, "alltoall": 4 << 20, "scatter": 2 << 20, "gather": 2 << 20}
"""Bytes of the vectors of all ranks together, up to which they go through stages even if ranks could use each other's
memory directly: system calls, which look up every page, cost more than a copy that stays in the cache. What is only
copied, and not reduced, is copied twice then."""

WINDOWS, LINE, LEAST, MOST = 8, 64, 64 << 10, 256 << 10


def prefers_stages(collective: str, p: int, nbytes: int) -> bool:
    """Do vectors of so many bytes go through stages, if there is the choice?"""
    if collective == "reduce" and p == 2:
        return True  # window by window
    if collective == "broadcast" and p == 2:
        return nbytes < HALF  # one of them would wait for the other's copy
    return nbytes * p <= STAGED_COPIES.get(collective, STAGED if p > 3 else STAGED_OF_FEW)


def window(collective: str, p: int, nbytes: int) -> int | None:
    """Bytes that go through a stage at a time, where one of two ranks writes and the other reads; None: all of them."""
    if p != 2 or collective != "reduce":
        return None
    return min(max(LEAST, nbytes // WINDOWS // LINE * LINE), MOST)
