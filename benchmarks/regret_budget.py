"""Time that ranks share out among what they measure."""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter

import numpy as np

import unisono


class Budget:
    """So many seconds by rank 0's clock, which all ranks go by."""

    def __init__(self, comm: unisono.Communicator, seconds: float) -> None:
        self.comm, self.until = comm, perf_counter() + seconds

    def is_left(self) -> bool:
        return bool(self.comm.broadcast(np.array([perf_counter() < self.until]))[0])

    def rounds(self, most: int, fewest: int = 1) -> Iterator[int]:
        """The numbers of the rounds that fit in."""
        for number in range(most):
            if number >= fewest and not self.is_left():
                return
            yield number
