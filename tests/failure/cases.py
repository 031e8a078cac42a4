"""Jobs in which one rank is killed or stopped, at any round of any algorithm, on any kind of links."""

from __future__ import annotations

import random
from dataclasses import dataclass
from math import log2

from tests.comm.oracle import CUT

from unisono.schedule.catalog import algorithms, find

RANKS = (2, 3, 4, 5, 8)
LINKS = ("direct", "staged", "tcp", "lab")
SMALLEST, LARGEST = 8, 64 << 20  # bytes
CALL = 2  # in which it happens
CATALOGUE = tuple(algorithm for algorithm in algorithms() if algorithm.name != "dedicated_servers")
"""In the others not every rank is in the result, so a communicator has no use for them."""


@dataclass(frozen=True)
class Case:
    action: str
    links: str
    p: int
    collective: str
    algorithm: str
    nbytes: int
    victim: int
    round: int  # from 1
    started: bool  # by comm.start
    lent: bool  # arrays of comm.empty

    @property
    def rows(self) -> int:
        """Of float64; a multiple of the ranks where the input is cut."""
        rows = max(1, self.nbytes // 8)
        return -(-rows // self.p) * self.p if self.collective in CUT else rows

    @property
    def deadline(self) -> float:
        """Long for a death, which is noticed before; for a rank that stands still, longer than the call takes."""
        return 60.0 if self.action == "kill" else 8 + self.nbytes * self.p / 20e6

    @property
    def inject(self) -> str:
        return f"{self.action} rank={self.victim} call={CALL} round={self.round}"


def draw(rng: random.Random, action: str, links: str) -> Case:
    """Every algorithm, number of ranks and round is as likely as the next, and so is every order of magnitude."""
    p, algorithm = rng.choice(RANKS), rng.choice(CATALOGUE)
    rounds = find(algorithm.collective.name, algorithm.name).schedule(p).table.rounds
    return Case(
        action,
        links,
        p,
        algorithm.collective.name,
        algorithm.name,
        int(2 ** rng.uniform(log2(SMALLEST), log2(LARGEST))),
        rng.randrange(p),
        rng.randint(1, max(rounds, 1)),
        rng.random() < 0.5,
        rng.random() < 0.5,
    )
