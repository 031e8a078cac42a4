"""How many samples each rank should take, so that all are through at the same time."""

from __future__ import annotations

from collections.abc import Sequence

from ..comm.arguments import whole
from ..errors import ConfigError


def shares(total: int, speeds: Sequence[float]) -> list[int]:
    """So many samples in all, cut in proportion to samples per second; at least 1 each, where there are enough.

    What is left after rounding down goes to those that were rounded most: the sum is exact, and no share is off by 1.
    """
    total = whole(total, "total")
    if total < 0 or not speeds or min(speeds) <= 0:
        raise ConfigError(f"{total} samples for speeds {list(speeds)}: both have to be positive")
    least = 1 if total >= len(speeds) else 0
    free = total - least * len(speeds)
    exact = [max(0.0, total * speed / sum(speeds) - least) for speed in speeds]
    exact = [each * free / sum(exact) if sum(exact) else 0.0 for each in exact]
    cut = [int(each) for each in exact]
    by_rest = sorted(range(len(cut)), key=lambda rank: (cut[rank] - exact[rank], rank))
    for rank in by_rest[: free - sum(cut)]:
        cut[rank] += 1
    return [least + each for each in cut]
