"""What every message of a round costs where nobody is in its way: seconds at both ports, and to start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ..errors import ConfigError
from ..interpret.machine import Machine
from ..schedule.ir import Ints
from .rounds import Batch, Floats
from .topology import Topology


class Work(NamedTuple):
    """Seconds of each message: to start it, in the sender's port, in the receiver's, and to reduce it there."""

    start: Floats
    out: Floats
    into: Floats
    reducing: Floats


@dataclass(frozen=True)
class Setting:
    """A machine, what joins its ranks, and what is wrong with some of them.

    Everything that a straggler does takes so many times as long: starting a message (that it sends or receives), its
    ports, its reductions.
    """

    machine: Machine
    topology: Topology
    hop: float = 0.0
    stragglers: Mapping[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        p = self.topology.p
        self.machine.require_ranks(p)
        if not 0 <= self.hop < float("inf"):
            raise ConfigError(f"a hop takes from 0 s up, not {self.hop:g} s; the nearest is 0")
        for rank, factor in self.stragglers.items():
            if not 0 <= rank < p:
                raise ConfigError(
                    f"straggler {rank}: {p} ranks are numbered 0 to {p - 1}; the nearest is {min(max(rank, 0), p - 1)}"
                )
            if not 0 < factor < float("inf"):
                raise ConfigError(f"straggler {rank}: it takes x times as long, x above 0, not {factor:g}; try 4")

    @property
    def is_plain(self) -> bool:
        """Do all ports cost the same?"""
        return self.machine.uniform and not self.stragglers

    @cached_property
    def slowness(self) -> Floats:
        """Of every rank; 1 is normal."""
        factor = np.ones(self.topology.p)
        for rank, x in self.stragglers.items():
            factor[rank] = x
        return factor

    @cached_property
    def link_beta(self) -> Floats:
        """Seconds per byte of the topology's links."""
        return self.topology.beta() * self.machine.link.beta

    def work(self, batch: Batch) -> Work:
        """What the messages of a round cost."""
        alpha, beta = self._pair_costs(batch.source, batch.target)
        local = batch.source == batch.target
        if local.any():
            alpha, beta = np.where(local, 0, alpha), np.where(local, 0, beta)
        if self.hop:
            alpha = alpha + self.hop * self.topology.hops(batch.source, batch.target)
        out = into = beta * batch.nbytes
        reducing = self.machine.gamma * np.where(batch.reduces, batch.nbytes, 0)
        if self.stragglers:
            sender, receiver = self.slowness[batch.source], self.slowness[batch.target]
            alpha, out = alpha * np.maximum(sender, receiver), out * sender
            into, reducing = into * receiver, reducing * receiver
        return Work(np.broadcast_to(alpha, batch.nbytes.shape), out, into, reducing)

    def _pair_costs(self, source: Ints, target: Ints) -> tuple[Floats, Floats]:
        links = self.machine.links
        if len(links) == 1:
            return np.asarray(links[0].alpha), np.asarray(links[0].beta)
        kinds = self.machine.kinds_of_link(source, target)
        alpha, beta = np.zeros(len(source)), np.zeros(len(source))
        for link, here in zip(links, kinds, strict=True):
            alpha[here], beta[here] = link.alpha, link.beta
        return alpha, beta
