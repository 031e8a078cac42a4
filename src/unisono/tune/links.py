"""Choose an algorithm for ranks that are joined by links, of which some or all are TCP.

On one host, links are as fast as its cores copy, and the ranks share these; between hosts, the wire is the limit. Both
were measured: docs/performance-links.md. What a message costs the processor, of which the price of a schedule knows
nothing, decides among small vectors; so there are tables here, and a price only where the wire decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from itertools import groupby
from typing import Any, NamedTuple

from ..interpret.explain import best_price, explain
from ..interpret.machine import Link, Machine
from ..schedule.catalog import find
from ..schedule.schedule import Schedule
from .select import is_reproducible

WIRE = Machine(Link(alpha=60e-6, beta=1 / 117e6), gamma=1 / 10e9)
"""Gigabit Ethernet. On faster wires the same algorithms are best, of somewhat larger vectors."""

LOOPBACK = Machine(Link(alpha=8e-6, beta=1 / 4e9), gamma=1 / 10e9)
"""TCP within a host."""

KB, MB = 1 << 10, 1 << 20
FEW = 8
"""Up to so many ranks send to all others at once: the queue of a switch holds what more of them send to one."""


class Place(NamedTuple):
    """Where the ranks are: how many on each host, if those of a host are consecutive; and the cores of a host."""

    hosts: tuple[int, ...] = ()
    cores: int = 1

    @classmethod
    def of(cls, names: list[str], cores: int) -> Place:
        """From the name of every rank's host."""
        runs = [(name, len(list(run))) for name, run in groupby(names)]
        scattered = len({name for name, _ in runs}) < len(runs)
        return cls(() if scattered else tuple(count for _, count in runs), cores)

    @property
    def is_one_host(self) -> bool:
        return len(self.hosts) == 1

    @property
    def is_crowded(self) -> bool:
        """One host with more ranks than cores: it is messages that cost there, and changes of ranks, not rounds."""
        return self.is_one_host and self.hosts[0] > self.cores

    @property
    def has_neighbours(self) -> bool:
        """Several hosts, some of which have several ranks?"""
        return len(self.hosts) > 1 and max(self.hosts) > 1


class BySize(NamedTuple):
    """The algorithms for small, middling and large vectors."""

    small: str
    middling: str
    large: str


CROWDED: Mapping[str, BySize] = {
    "allreduce": BySize("mst", "direct", "ring"),
    "allgather": BySize("mst", "direct", "ring"),
    "reduce_scatter": BySize("mst", "direct", "ring"),
    "reduce": BySize("mst", "recursive_halving", "ring"),
}
ONE_HOST: Mapping[str, BySize] = {
    "allreduce": BySize("exchange", "direct", "ring"),
    "allgather": BySize("direct", "direct", "ring"),
    "reduce_scatter": BySize("direct", "direct", "ring"),
    "reduce": BySize("mst", "recursive_halving", "ring"),
}
FEW_HOSTS: Mapping[str, BySize] = {
    "allreduce": BySize("recursive_doubling", "direct", "ring"),
    "allgather": BySize("bruck", "direct", "ring"),
    "reduce_scatter": BySize("circulant", "direct", "ring"),
    "reduce": BySize("mst", "recursive_halving", "ring"),
}
MANY_HOSTS: Mapping[str, BySize] = {
    "allreduce": BySize("recursive_doubling", "circulant", "ring"),
    "allgather": BySize("bruck", "bruck", "ring"),
    "reduce_scatter": BySize("circulant", "circulant", "ring"),
    "reduce": BySize("mst", "recursive_halving", "ring"),
}
TWO_RANKS = {"allreduce": "exchange", "allgather": "direct", "reduce_scatter": "direct", "reduce": "mst"}
PRICED = {"broadcast": ("mst", "pipelined_chain"), "alltoall": ("pairwise", "bruck")}
ALONE = {"barrier": "dissemination", "scan": "recursive_doubling"}


def select(
    collective: str, p: int, nbytes: int, root: int = 0, *, place: Place | None = None, reproducible: bool = False
) -> Schedule:
    """The best schedule for a vector of so many bytes, the same on every rank that knows the same place."""
    rounded = 1 << max(0, nbytes - 1).bit_length()
    name, parameters = _best(collective, p, rounded, place or Place(), reproducible)
    return find(collective, name).schedule(p, root, **dict(parameters))


@lru_cache(4096)
def _best(collective: str, p: int, nbytes: int, place: Place, reproducible: bool) -> tuple[str, tuple[Any, ...]]:
    """Sizes are rounded up to a power of two, so that few have to be looked at."""
    if reproducible:
        return _reproducible(collective, p, nbytes, place)
    if collective in PRICED:
        return _cheapest(collective, p, nbytes, place)
    if collective == "allreduce" and place.has_neighbours and nbytes > 16 * KB:
        return "hierarchical", (("hosts", place.hosts),)
    return _by_size(collective, p, nbytes, place), ()


def _by_size(collective: str, p: int, nbytes: int, place: Place) -> str:
    if collective in ALONE:
        return ALONE[collective]
    if collective in ("scatter", "gather"):  # those of a tree are passed on, which takes time
        return "flat" if p <= FEW or nbytes > MB else "mst"
    if p == 2:
        return TWO_RANKS[collective]
    if place.is_one_host:
        names = (CROWDED if place.is_crowded else ONE_HOST)[collective]
        small, middling = 64 * KB if place.is_crowded else 16 * KB, 4 * MB
    else:
        names = (FEW_HOSTS if p <= FEW else MANY_HOSTS)[collective]
        small, middling = 16 * KB, (p - 1) * 64 * KB  # above, the starts of a ring's messages take less than a tenth
    return names.small if nbytes <= small else names.middling if nbytes <= middling else names.large


def _cheapest(collective: str, p: int, nbytes: int, place: Place) -> tuple[str, tuple[Any, ...]]:
    machine = LOOPBACK if place.is_one_host else WIRE
    prices = [best_price(find(collective, name), p, nbytes, machine) for name in PRICED[collective]]
    return _chosen(min(prices, key=lambda candidate: candidate.time).schedule)


def _reproducible(collective: str, p: int, nbytes: int, place: Place) -> tuple[str, tuple[Any, ...]]:
    """The best of those that fold from the left."""
    for candidate in explain(collective, p, nbytes, LOOPBACK if place.is_one_host else WIRE):
        schedule = candidate.schedule
        if schedule.workers == p and is_reproducible(collective, schedule.name, p):
            return _chosen(schedule)
    raise LookupError(f"no reproducible algorithm for {collective}")


def _chosen(schedule: Schedule) -> tuple[str, tuple[Any, ...]]:
    parameters = ((name, value) for name, value in schedule.parameters.items() if name != "workers")
    return schedule.name, tuple(parameters)
