"""When ranks that share memory may go through stages, although they could use each other's memory directly.

Predictions count on it; calls try both, and take what is faster (native/execute/trials.cpp).
"""

from __future__ import annotations

STAGED, STAGED_OF_FEW = 32 << 20, 16 << 20
STAGED_COPIES = {"allgather": 4 << 20, "alltoall": 4 << 20, "gather": 2 << 20}
"""Bytes of the vectors of all ranks together, up to which they go through stages even if ranks could use each other's
memory directly: system calls, which look up every page, cost more than a copy that stays in the cache. What is only
copied, and not reduced, is copied twice then; but what several ranks fetch is staged once for all of them."""

STAGED_ROOTS = {"scatter": 1 << 20, "broadcast": 6 << 20}
"""The same, of the vector of a root that stages what others fetch, and waits for nobody."""
HALVED = 2 << 20
"""The same of a broadcast of two ranks."""

WINDOWS, LINE, LEAST, MOST = 8, 64, 64 << 10, 256 << 10


def prefers_stages(collective: str, p: int, nbytes: int) -> bool:
    """Do vectors of so many bytes go through stages, if there is the choice?"""
    if collective == ("reduce" if p == 2 else "allgather"):
        return True  # window by window
    if collective in STAGED_ROOTS:
        return nbytes <= (HALVED if collective == "broadcast" and p == 2 else STAGED_ROOTS[collective])
    return nbytes * p <= STAGED_COPIES.get(collective, STAGED if p > 3 else STAGED_OF_FEW)


def window(collective: str, p: int, nbytes: int) -> int | None:
    """Bytes of a block that go through a stage at a time, if ranks read what others still write; None: all of them."""
    if p > 2 and collective in ("allgather", "broadcast"):
        return MOST
    if p == 2 and collective in ("broadcast", "reduce"):
        return min(max(LEAST, nbytes // WINDOWS // LINE * LINE), MOST)
    return None
