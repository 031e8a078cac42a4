"""Stragglers, injected: in each clock one worker, drawn uniformly, takes four times as long; or always the last one."""

from __future__ import annotations

import time

import numpy as np


class Pace:
    """How long each worker computes in each clock. All workers draw the same."""

    def __init__(
        self, rank: int, size: int, *, seconds: float, slower: int = 4, permanent: bool = False, seed: int = 0
    ):
        self._rank, self._usual = rank, seconds
        self.slow = slower * seconds
        drawn = np.random.default_rng(seed).integers(0, size, 100_000)
        self._straggler = np.full_like(drawn, size - 1) if permanent else drawn

    def compute(self, clock: int) -> None:
        time.sleep(self.slow if self._straggler[clock] == self._rank else self._usual)
