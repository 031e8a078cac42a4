"""How large a bucket is best, from the machine model.

n bytes of gradients in k buckets of b = n/k cost k·a + n·t to average, if a call costs a and a byte t. What backward
cannot hide of that is the last bucket, b·t, and what the calls cost themselves, k·a:

    exposed(b) = n/b · a + b · t,   least at   b = √(n · a / t)

Both come from what the model predicts for allreduces of two sizes, and what it costs besides to start a call.
"""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ..comm.communicator import Communicator

CALL = 100e-6
"""Seconds that starting a call, and hearing of its end, takes from who computes meanwhile."""

SMALLEST, MOST = 256 << 10, 100
"""Bytes of a bucket; and how many there are at most, if gradients fill them: the flight recorder keeps the times of 256
calls. Of two buckets that come one after the other, the second one would not have fitted into the first, so that there
are never more than twice as many, and one for each type."""


SHORT, LONG = 1 << 20, 16 << 20
"""Bytes, for which the model is asked."""

FASTEST = 1e-12
"""Seconds per byte, where there is nobody to talk to."""


class Cost(NamedTuple):
    """Of an allreduce: seconds for the call, and for each byte."""

    call: float
    byte: float


def cost_of_allreduce(seconds: Callable[[int], float]) -> Cost:
    """From the predicted seconds for a vector of so many bytes: a straight line through two of them."""
    byte = max(FASTEST, (seconds(LONG) - seconds(SHORT)) / (LONG - SHORT))
    return Cost(CALL + max(0.0, seconds(SHORT) - SHORT * byte), byte)


def exposed(nbytes: int, bucket: float, cost: Cost) -> float:
    """Seconds that backward does not hide, with buckets of so many bytes."""
    return nbytes / bucket * cost.call + bucket * cost.byte


def best_bucket(nbytes: int, cost: Cost) -> int:
    """Bytes of a bucket, for so many bytes of gradients."""
    best = sqrt(max(nbytes, 1) * cost.call / cost.byte)
    return int(max(SMALLEST, smallest_bucket(nbytes), best))


def smallest_bucket(nbytes: int) -> int:
    """Bytes of a bucket, for which there are not too many."""
    return -(-nbytes // MOST)


def bucket_bytes_for(comm: Communicator, nbytes: int, wanted: int | None) -> int:
    """The same on every rank, because all have the same model."""
    if wanted is not None:
        return max(wanted, smallest_bucket(nbytes))
    return best_bucket(nbytes, cost_of_allreduce(lambda size: comm.explain("allreduce", size).chosen.predicted))
