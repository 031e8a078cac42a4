"""What is to be trained, and on which hosts."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import ConfigError
from ..interpret.machine import ETHERNET, Link, Machine

BACKWARD = 2 / 3
"""The part of a step's computation in which gradients come out: the backward pass takes twice the forward pass."""

INSIDE = Link(alpha=2e-6, beta=8 / 100e9)
"""Between ranks of a host: a start-up of 2 µs and 100 Gbit/s."""


@dataclass(frozen=True)
class Job:
    """Every host computes ``compute`` seconds on its own batch, then all add up ``nbytes`` bytes of gradients.

    A host has ``per_host`` ranks on ``local`` links and one ``link`` to a switch. With overlap, gradients are handed
    over in ``buckets`` while the backward pass goes on.
    """

    nbytes: int
    compute: float
    link: Link = ETHERNET
    gamma: float = 1 / 10e9
    per_host: int = 1
    local: Link = INSIDE
    buckets: int = 16
    backward: float = BACKWARD

    def __post_init__(self) -> None:
        whole = {"bytes": self.nbytes, "ranks per host": self.per_host, "buckets": self.buckets}
        for what, value in whole.items():
            if value < 1:
                raise ConfigError(f"{value} {what}: there is at least 1; the nearest is 1")
        if not 0 <= self.backward <= 1:
            nearest = 1 if self.backward > 1 else 0
            raise ConfigError(
                f"the backward pass is a part of the step, from 0 to 1, not {self.backward:g}; the nearest is {nearest}"
            )
        if not 0 < self.compute < float("inf"):
            raise ConfigError(f"a step computes for longer than 0 s, not {self.compute:g} s; try 0.3")
        self.ranks(1)  # refuses links and rates that there are not

    @property
    def between_hosts(self) -> Machine:
        """Hosts as the ranks, each with its link."""
        return Machine(self.link, self.gamma)

    def ranks(self, hosts: int) -> Machine:
        """All ranks of so many hosts."""
        return Machine(self.link, self.gamma, local=self.local, hosts=(self.per_host,) * hosts)
