"""The machine model: what it costs to start a message (α), to send a byte (β) and to reduce a byte (γ)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ..errors import ConfigError
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

    def __post_init__(self) -> None:
        seconds = {"alpha": self.link.alpha, "beta": self.link.beta, "gamma": self.gamma}
        if self.local is not None:
            seconds |= {"local alpha": self.local.alpha, "local beta": self.local.beta}
        for what, value in seconds.items():
            if not 0 <= value < float("inf"):
                raise ConfigError(f"{what} is seconds from 0 up, not {value:g}; the nearest is 0")
        if any(ranks < 1 for ranks in self.hosts):
            raise ConfigError(f"hosts have 1 rank or more, not {min(self.hosts)}; leave out those without")

    def require_ranks(self, p: int) -> None:
        """Are the hosts those of p ranks?"""
        if self.hosts and sum(self.hosts) != p:
            raise ConfigError(f"the hosts {self.hosts} have {sum(self.hosts)} ranks, not {p}")

    @property
    def links(self) -> tuple[Link, ...]:
        """The kinds of links."""
        return (self.link, self.local) if self.local is not None and self.hosts else (self.link,)

    @property
    def uniform(self) -> bool:
        """Do all links cost the same?"""
        return len(self.links) == 1

    def kinds_of_link(self, rank: Number, peer: Number) -> tuple[Any, ...]:
        """For each kind of link, which pairs of rank and peer it joins."""
        if self.uniform:
            return (True,)
        near = self._host_of[rank] == self._host_of[peer]
        return ~near, near

    @cached_property
    def _host_of(self) -> Ints:
        return np.repeat(np.arange(len(self.hosts)), self.hosts)


DEFAULT = Machine()
"""Ten-gigabit Ethernet, when nobody has measured."""
