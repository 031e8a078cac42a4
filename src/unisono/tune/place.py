"""Where the ranks are: on which hosts and machines, with how many cores, and how fast the wires of the hosts are."""

from __future__ import annotations

from itertools import groupby
from typing import NamedTuple

import numpy as np

from ..schedule.ir import Ints

SLOWNESS = 16


class Path(NamedTuple):
    """From one host to another, where that is not as between the others: how much slower than the fastest wire it is,
    and how much longer than on the shortest way a message is under way, both in parts of SLOWNESS."""

    source: int
    target: int
    slow: int = SLOWNESS
    far: int = SLOWNESS


class Place(NamedTuple):
    """How many ranks each host has, if those of a host are consecutive; the cores of a host; how they are joined."""

    hosts: tuple[int, ...] = ()
    cores: int = 1
    shares_memory: bool = False
    slow: tuple[int, ...] = ()
    """By host: how much slower than that of the fastest host its wire is, in parts of SLOWNESS; none if all are alike.
    """
    machines: tuple[int, ...] = ()
    """By host: the first host that runs on the same machine; none if each has its own. Hosts of a lab, and containers
    with networks of their own, share the cores of one."""
    paths: tuple[Path, ...] = ()
    """Those between hosts that differ from what `slow` says of both."""

    @classmethod
    def of(
        cls, names: list[str], cores: int, *, shares_memory: bool = False, machines: list[str] | None = None
    ) -> Place:
        """From the name of every rank's host, and that of its machine."""
        runs = [(name, len(list(run))) for name, run in groupby(names)]
        if len({name for name, _ in runs}) < len(runs):
            return cls((), cores, shares_memory)
        hosts = [name for name, _ in runs]
        of_hosts = [machines[names.index(host)] for host in hosts] if machines else hosts
        numbers = tuple(of_hosts.index(machine) for machine in of_hosts)
        sharing = numbers if len(set(numbers)) < len(hosts) else ()
        return cls(tuple(count for _, count in runs), cores, shares_memory, machines=sharing)

    @property
    def is_one_host(self) -> bool:
        return len(self.hosts) == 1

    @property
    def is_crowded(self) -> bool:
        """Has some machine more ranks than cores?"""
        return int(np.bincount(self.machine_of(sum(self.hosts)), minlength=1).max()) > self.cores

    @property
    def has_neighbours(self) -> bool:
        """Several hosts, some of which have several ranks?"""
        return len(self.hosts) > 1 and max(self.hosts) > 1

    def host_of(self, p: int) -> Ints:
        """By rank; if that is not known, everyone is on a host of its own."""
        return np.repeat(np.arange(len(self.hosts)), self.hosts) if sum(self.hosts) == p else np.arange(p)

    def machine_of(self, p: int) -> Ints:
        """By rank, as its host."""
        hosts = self.host_of(p)
        return np.array(self.machines)[hosts] if self.machines and sum(self.hosts) == p else hosts

    def distances(self, hosts: int) -> Ints:
        """By host that sends and host that receives, in parts of SLOWNESS."""
        found = np.full((hosts, hosts), SLOWNESS)
        for path in self.paths:
            found[path.source, path.target] = path.far
        return found

    def slowness(self, hosts: int) -> Ints:
        """By host, in parts of SLOWNESS."""
        return np.array(self.slow if len(self.slow) == hosts else (SLOWNESS,) * hosts)
