"""Hosts: add up inside each host, then between hosts, then hand out inside each host.

The vector is cut into columns, as many as the largest host has ranks. Inside a host each rank collects the sum of
one column (of several, in a smaller host); between hosts a ring per column joins the ranks that hold it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .combine import dual, on, then, together
from .ir import Ints, Number, Rounds
from .pattern import all_alike, pattern
from .ring import ring_allgather, ring_allreduce


class Hosts(NamedTuple):
    """How many ranks each host has, and the first rank of each."""

    size: Ints
    start: Ints
    columns: int

    @classmethod
    def of(cls, sizes: tuple[int, ...]) -> Hosts:
        size = np.array(sizes)
        return cls(size, np.cumsum(size) - size, max(sizes))

    def host(self, r: Number) -> Number:
        return np.searchsorted(self.start, r, side="right") - 1

    def first_column(self, host: Number, local: Number) -> Number:
        """The first column of a host's ``local``-th rank."""
        return local * self.columns // self.size[host]

    def owner(self, host: Number, column: Number) -> Number:
        """The rank of a host that holds a column."""
        return self.start[host] + ((column + 1) * self.size[host] - 1) // self.columns


def equal_hosts_alike(p: int, r: Number, hosts: tuple[int, ...]) -> tuple[Number, Number]:
    """All ranks do the same if all hosts are equal; otherwise none do."""
    return all_alike(p, r) if len(set(hosts)) == 1 else (r, 0 * r)


@pattern(alike=equal_hosts_alike)
def host_allgather(p: int, r: Number, hosts: tuple[int, ...]) -> Rounds:
    """A ring inside each host; a smaller host's ring ends earlier."""
    layout = Hosts.of(hosts)
    host = layout.host(r)
    start, local = layout.start[host], r - layout.start[host]

    def ring(size: int) -> Rounds:
        return on(
            ring_allgather(size, local),
            real=lambda i: start + i,
            member=layout.size[host] == size,
            blocks=size,
            first=lambda b: b * layout.columns // size * len(hosts),
        )

    yield from together(*map(ring, sorted(set(hosts))))


host_reduce_scatter = dual(
    host_allgather, name="host_reduce_scatter", summary="A ring inside each host adds up.", reducing=True
)


@pattern(alike=equal_hosts_alike)
def column_allreduce(p: int, r: Number, hosts: tuple[int, ...]) -> Rounds:
    """For every column, a ring of the ranks that hold it, one on each host."""
    layout = Hosts.of(hosts)
    host = layout.host(r)
    local = r - layout.start[host]
    begin, end = layout.first_column(host, local), layout.first_column(host, local + 1)

    def ring(column: Number) -> Rounds:
        return on(
            ring_allreduce(len(hosts), host),
            real=lambda i: layout.owner(i, column),
            member=column < end,
            blocks=len(hosts),
            first=lambda b: column * len(hosts) + b,
        )

    most = -(-layout.columns // min(hosts))
    yield from together(*(ring(begin + k) for k in range(most)))


hierarchical_allreduce = then(
    host_reduce_scatter,
    column_allreduce,
    host_allgather,
    name="hierarchical_allreduce",
    summary="Rings inside each host, rings between hosts: the slow links carry 1/g of the vector.",
)


def equal_hosts(p: int) -> tuple[int, ...]:
    """Hosts for p ranks when nobody says which: as many ranks in a host as hosts, or nearly."""
    size = next(d for d in range(int(p**0.5), 0, -1) if p % d == 0)
    return (p // size,) * size
