"""A job in a lab: its ranks in blocks on the hosts, rank 0 on the first."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import ConfigError
from ..launcher.job import Job, check_ranks
from .host import Host
from .namespaces import in_network_of
from .places import Places
from .state import Layout


@dataclass(frozen=True)
class LabJob(Job):
    """All `local_size` ranks are started here, but each host counts its own."""

    hosts: tuple[str, ...] = field(kw_only=True)  # by rank

    @property
    def size(self) -> int:
        return self.local_size

    def rank(self, local_rank: int) -> int:
        return local_rank

    @property
    def dump_directory(self) -> Path:
        """Not in /tmp: each host of a lab has its own."""
        return Path("/var/tmp") / f"unisono-{self.name}"

    def variables(self, local_rank: int) -> dict[str, str]:
        host = self.hosts[local_rank]
        return super().variables(local_rank) | {
            "UNISONO_LOCAL_RANK": str(local_rank - self.hosts.index(host)),
            "UNISONO_LOCAL_SIZE": str(self.hosts.count(host)),
            "UNISONO_HOST": host,
        }


@contextmanager
def prepare_job(layout: Layout, ranks: int, command: list[str], servers: int = 0) -> Iterator[tuple[LabJob, Places]]:
    """The job, and the places where the launcher starts its ranks. Parameter servers are on the last hosts, where no
    ranks are if there are others."""
    check_ranks(ranks, "-n")
    hosts = spread(ranks, layout.hosts[: max(0, len(layout.hosts) - servers)] or layout.hosts)
    for path in (os.getcwd(), command[0], *(word for word in command[1:2] if word.endswith(".py"))):
        _need_to_see(path, hosts[0])
    names = tuple(host.name for host in hosts)
    # The launcher numbers servers from -1 down.
    with Places([*hosts, *reversed(hosts_of_servers(layout, servers))]) as places:
        yield LabJob(ranks, len(set(names)), rendezvous=_free_address(hosts[0]), hosts=names), places


def hosts_of_servers(layout: Layout, servers: int) -> list[Host]:
    """The last ones; if there are not so many, several are on one."""
    return [layout.hosts[-1 - number % len(layout.hosts)] for number in range(servers)]


def addresses_of_servers(layout: Layout, servers: int) -> list[str]:
    """Where they will listen, by their number."""
    return [_free_address(host) for host in hosts_of_servers(layout, servers)]


def spread(ranks: int, hosts: list[Host]) -> list[Host]:
    """The host of each rank: blocks that differ by one at most, the larger ones first."""
    each, more = divmod(ranks, len(hosts))
    return [host for number, host in enumerate(hosts) for _ in range(each + (number < more))]


def _need_to_see(path: str, host: Host) -> None:
    here = os.path.realpath(path)
    there = f"/proc/{host.pid}/root{here}"
    if not os.path.exists(there) or not os.path.samefile(here, there):
        directory = here if os.path.isdir(here) else os.path.dirname(here)
        raise ConfigError(
            f"{here} is not on the hosts of the lab, which have their own /tmp and /dev/shm: "
            f"make the lab with --share {directory}, or move it to another directory"
        )


def _free_address(host: Host) -> str:
    """A port that is free now in the host's own network, where only other jobs in this lab could take it."""
    with host.process() as pidfd, in_network_of(pidfd), socket.socket() as listener:
        listener.bind((host.address, 0))
        return f"{host.address}:{listener.getsockname()[1]}"
