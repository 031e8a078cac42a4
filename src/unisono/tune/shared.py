"""Which algorithm for ranks that use each other's memory.

There a message costs nothing but the wait for it, and all cores of a host share the work: what counts is how often
ranks wait for each other, and that all of them have as much to combine and copy. The limits are measured.
"""

from __future__ import annotations

from typing import Any, NamedTuple

SHORT = 16 << 10
"""Bytes: a vector is short if the vectors of all ranks together have no more."""

LONG = 1 << 20
"""Bytes: from here on, several ranks at work are worth more waits."""

SEGMENT = 1 << 20
"""Bytes of a segment: two ranks copy one each at the same time."""

MOST_SEGMENTS = 64


STAGED = 16 << 20
STAGED_COPIES = {"broadcast": 4 << 20, "allgather": 4 << 20, "alltoall": 4 << 20, "scatter": 2 << 20, "gather": 2 << 20}
"""Bytes of the vectors of all ranks together, up to which they go through stages even if ranks could use each other's
memory directly: system calls, which look up every page, cost more than a copy that stays in the cache. What is only
copied, and not reduced, is copied twice then."""


class Choice(NamedTuple):
    """An algorithm's name and parameters."""

    name: str
    parameters: dict[str, Any]


def choose(collective: str, p: int, nbytes: int) -> Choice | None:
    """For a vector of so many bytes; None if there is nothing to choose from."""
    match collective:
        case "allreduce":
            return _plain("exchange" if nbytes * p <= SHORT else "direct")
        case "broadcast" if p == 2 and nbytes >= LONG:
            return Choice("pipelined_chain", {"segments": min(MOST_SEGMENTS, max(2, nbytes // SEGMENT))})
        case "broadcast" | "scatter" | "gather":
            return _plain("flat")
        case "reduce":
            return _plain("ring" if nbytes > LONG else "flat")
        case "allgather" | "reduce_scatter":
            return _plain("direct")
        case "barrier":
            return _plain("exchange")
    return None


def prefers_stages(collective: str, p: int, nbytes: int) -> bool:
    """Do vectors of so many bytes go through stages, if there is the choice?"""
    if collective == "broadcast" and p == 2:
        return nbytes < LONG // 2  # of two ranks, one would wait for the other's copy
    return nbytes * p <= STAGED_COPIES.get(collective, STAGED)


def _plain(name: str) -> Choice:
    return Choice(name, {})
