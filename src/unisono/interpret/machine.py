"""The machine model: what it costs to start a message (α), to send a byte (β) and to reduce a byte (γ)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ..schedule.ir import Ints, Number


class Link(NamedTuple):
    """Seconds to start a message, and seconds per byte."""

    alpha: float
    beta: float


ETHERNET = Link(alpha=30e-6, beta=8 / 10e9)
"""A start-up of 30 µs and 10 Gbit/s."""


@dataclass(frozen=True)
class Machine:
    """Ranks joined by equal links; if ``hosts`` says how many ranks each host has, those inside one are ``local``."""

    link: Link = ETHERNET
    gamma: float = 1 / 10e9
    local: Link | None = None
    hosts: tuple[int, ...] = ()

    @property
    def uniform(self) -> bool:
        """Do all links cost the same?"""
        return self.local is None or not self.hosts

    def between(self, rank: Number, peer: Number) -> Link:
        """The link of each pair; its fields are arrays if the machine has two kinds of link."""
        if self.local is None or not self.hosts:
            return self.link
        same = self._host_of[rank] == self._host_of[peer]
        alpha: Any = np.where(same, self.local.alpha, self.link.alpha)
        beta: Any = np.where(same, self.local.beta, self.link.beta)
        return Link(alpha, beta)

    @cached_property
    def _host_of(self) -> Ints:
        return np.repeat(np.arange(len(self.hosts)), self.hosts)


DEFAULT = Machine()
"""Ten-gigabit Ethernet, when nobody has measured."""
