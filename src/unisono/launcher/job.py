"""A job: how many ranks, where they meet, and the variables that tell each of them."""

from __future__ import annotations

import hashlib
import secrets
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from .. import config
from ..errors import ConfigError

MOST_RANKS = 1024  # on one host
KEY_BYTES = 32
OF_ONE_LAUNCHER = {"UNISONO_LISTENER", "UNISONO_VERDICTS"}  # descriptors, which an outer job may have left


@dataclass(frozen=True)
class Job:
    """The ranks of this host, and their place among those of the other hosts."""

    local_size: int
    nodes: int = 1
    node_rank: int = 0
    rendezvous: str = ""  # empty: on this host, where the launcher finds a port
    key: str = field(default_factory=lambda: secrets.token_hex(KEY_BYTES), repr=False)
    name: str = field(default_factory=lambda: secrets.token_hex(4))

    @property
    def size(self) -> int:
        return self.nodes * self.local_size

    def rank(self, local_rank: int) -> int:
        return self.node_rank * self.local_size + local_rank

    def variables(self, local_rank: int) -> dict[str, str]:
        """What a rank is told. The key is here and nowhere else: argv can be read by every user of the host."""
        return {
            "UNISONO_RANK": str(self.rank(local_rank)),
            "UNISONO_SIZE": str(self.size),
            "UNISONO_LOCAL_RANK": str(local_rank),
            "UNISONO_LOCAL_SIZE": str(self.local_size),
            "UNISONO_RENDEZVOUS": self.rendezvous,
            "UNISONO_KEY": self.key,
            "UNISONO_JOB": self.name,
        }

    @property
    def dump_directory(self) -> Path:
        """Where the ranks write what they did if they fail, unless somebody says otherwise."""
        return Path(tempfile.gettempdir()) / f"unisono-{self.name}"

    def environment(self, local_rank: int, more: Mapping[str, str]) -> dict[str, str]:
        """The caller's environment with our variables, and defaults where it says nothing."""
        defaults = {"PYTHONUNBUFFERED": "1"}  # lines appear when they are printed, not when 8 KiB are full
        if self.local_size > 1:
            defaults["OMP_NUM_THREADS"] = "1"  # else every rank starts a thread per core
        inherited = {name: text for name, text in config.inherited().items() if name not in OF_ONE_LAUNCHER}
        return {**defaults, **inherited, **self.variables(local_rank), **more}


def describe_job(ranks: int, *, nodes: int = 1, node_rank: int | None = None, rendezvous: str | None = None) -> Job:
    """A job from what the user wrote; what makes no sense is refused."""
    check_ranks(ranks, "-n")
    if nodes < 1:
        raise ConfigError(f"--nnodes {nodes}: a job has 1 host or more; the nearest is 1")
    if rendezvous is not None:
        check_address(rendezvous)
    if nodes == 1:
        if node_rank:
            raise ConfigError(f"--node-rank {node_rank}: the only host of a job is number 0; see --nnodes")
        return Job(ranks, rendezvous=rendezvous or "")
    if node_rank is None:
        raise ConfigError(f"--nnodes {nodes} needs --node-rank: 0 on the first host, up to {nodes - 1} on the last")
    if not 0 <= node_rank < nodes:
        nearest = min(max(node_rank, 0), nodes - 1)
        raise ConfigError(f"--node-rank {node_rank}: {nodes} hosts are numbered from 0; the nearest is {nearest}")
    if rendezvous is None:
        raise ConfigError(f"--nnodes {nodes} needs --rendezvous host:port, an address of the first host")
    key = _shared_key()
    # The launchers of a job do not talk to each other: what they share has to follow from what they were all given.
    name = hashlib.sha256(f"{key} {rendezvous}".encode()).hexdigest()[:8]
    return Job(ranks, nodes, node_rank, rendezvous, key, config.inherited().get("UNISONO_JOB") or name)


def check_ranks(ranks: int, option: str) -> None:
    if not 1 <= ranks <= MOST_RANKS:
        nearest = min(max(ranks, 1), MOST_RANKS)
        raise ConfigError(f"{option} {ranks}: a host runs 1 to {MOST_RANKS} ranks; the nearest is {nearest}")


def check_address(address: str) -> None:
    host, _, port = address.rpartition(":")
    bare_ipv6 = ":" in host and not (host.startswith("[") and host.endswith("]"))
    if not host or bare_ipv6 or not port.isascii() or not port.isdigit() or not 1 <= int(port) <= 65535:
        raise ConfigError(f"--rendezvous {address!r}: write host:port or [ipv6]:port, with a port of 1 to 65535")


def _shared_key() -> str:
    key = config.inherited().get("UNISONO_KEY", "")
    if not key:
        raise ConfigError(
            "a job on several hosts needs UNISONO_KEY, the same secret on each of them; "
            f"make one with: python -c 'import secrets; print(secrets.token_hex({KEY_BYTES}))'"
        )
    return key
