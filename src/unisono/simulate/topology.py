"""What joins the ranks: links that messages of different ranks share, and the way that each message takes.

A rank sends through one port and receives through another; those are the machine's (α, β), and no topology changes
them. A topology adds the links between the ports. A switch adds none: there, only ports are shared.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import ConfigError
from ..schedule.ir import Ints

Floats = NDArray[np.float64]


class Routes(NamedTuple):
    """The links of every message: those from ``offset[m]`` to ``offset[m + 1]``."""

    offset: Ints
    link: Ints


class Group(NamedTuple):
    """Links of one kind, as a picture shows them: so many rows of so many."""

    name: str
    first: int
    rows: int
    columns: int


@dataclass(frozen=True)
class Topology(ABC):
    """Shared links, numbered from 0, and routes over them."""

    p: int
    slower: dict[int, float] = field(default_factory=dict, kw_only=True)
    """Links that take so many times as long."""

    @property
    @abstractmethod
    def name(self) -> str:
        """As it is written on the command line."""

    @property
    @abstractmethod
    def groups(self) -> list[Group]:
        """All links, kind by kind."""

    @abstractmethod
    def relative_beta(self) -> Floats:
        """Seconds per byte of each link, as multiples of those of a rank's port."""

    @abstractmethod
    def link_name(self, link: int) -> str:
        """What a person calls it."""

    @abstractmethod
    def hops(self, source: Ints, target: Ints) -> Ints:
        """How many shared links each message crosses."""

    @abstractmethod
    def routes(self, source: Ints, target: Ints) -> Routes:
        """The shared links that each message crosses, in their order."""

    @property
    def links(self) -> int:
        return sum(group.rows * group.columns for group in self.groups)

    @property
    def has_switches(self) -> bool:
        """Is there anything between the ranks that could add up?"""
        return False

    def beta(self) -> Floats:
        """As `relative_beta`, with what was made slower."""
        beta = self.relative_beta()
        for link, factor in self.slower.items():
            beta[link] *= factor
        return beta

    def load(self, source: Ints, target: Ints, amount: Floats) -> Floats:
        """The sum of what crosses each link."""
        routes = self.routes(source, target)
        weights = np.repeat(amount, np.diff(routes.offset))
        return np.bincount(routes.link, weights, self.links).astype(np.float64, copy=False)

    def crosses(self, source: Ints, target: Ints, marked: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which messages cross any of the marked links?"""
        routes = self.routes(source, target)
        until = np.concatenate([[0], np.cumsum(marked[routes.link])])
        return np.asarray(until[routes.offset[1:]] > until[routes.offset[:-1]])

    def with_slow_link(self, name: str, factor: float) -> Topology:
        """The same, with a link that takes ``factor`` times as long."""
        if not 0 < factor < float("inf"):
            raise ConfigError(f"{name}: a link takes x times as long, x above 0, not {factor:g}; try 4")
        return replace(self, slower=self.slower | {self.find_link(name): factor})

    def find_link(self, name: str) -> int:
        """The link that is called so."""
        names = {self.link_name(link): link for link in range(self.links)}
        if name in names:
            return names[name]
        near = get_close_matches(name, names, n=1, cutoff=0)
        hint = f"; the nearest is {near[0]!r}" if near else ": only the ports of its ranks are shared"
        raise ConfigError(f"{self.name} has no link {name!r}{hint}")


@dataclass(frozen=True)
class Switch(Topology):
    """Every rank has a port on one switch that is never the bottleneck."""

    @property
    def name(self) -> str:
        return "switch"

    @property
    def groups(self) -> list[Group]:
        return []

    @property
    def has_switches(self) -> bool:
        return True

    def relative_beta(self) -> Floats:
        return np.zeros(0)

    def link_name(self, link: int) -> str:
        raise IndexError(link)

    def hops(self, source: Ints, target: Ints) -> Ints:
        return np.zeros(len(source), int)

    def routes(self, source: Ints, target: Ints) -> Routes:
        return Routes(np.zeros(len(source) + 1, int), np.zeros(0, int))
