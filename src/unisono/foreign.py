"""The launchers of others: what their variables say about a process, and where its ranks can meet."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import NamedTuple

LOOPBACK = "127.0.0.1"

# Derived ports lie below those that Linux gives to outgoing connections, so that none of these is in the way.
_PORTS_TO_DERIVE = range(20000, 32768)


class Address(NamedTuple):
    """Where somebody listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Store(NamedTuple):
    """Where a launcher keeps what one rank says to the others before they are connected."""

    kind: str  # tcp_store, pmix or pmi
    where: str
    host: str  # of rank 0, as far as the launcher says; "" if it does not


class Launcher(NamedTuple):
    """The variables that a launcher sets, and what they say about where the ranks can meet."""

    name: str
    rank: str
    size: str
    local_rank: str
    local_size: str
    needs: tuple[str, ...]  # beside rank and size
    job: tuple[str, ...]  # together, they identify the job
    host: Callable[[Mapping[str, str]], str]  # of rank 0; "" if these variables do not say
    find_store: Callable[[Mapping[str, str]], tuple[str, str] | None] = lambda environ: None
    applies: Callable[[Mapping[str, str]], bool] = lambda environ: True

    def started(self, environ: Mapping[str, str]) -> bool:
        needed = (self.rank, self.size, *self.needs)
        return all(environ.get(name) for name in needed) and self.applies(environ)

    def meeting_point(self, environ: Mapping[str, str]) -> Address | None:
        """Without a store, the port follows from the job, so that every rank finds the same."""
        host = self.host_of_rank_0(environ)
        identity = [environ[name] for name in self.job if environ.get(name)]
        if not host or not identity:
            return None
        digest = int.from_bytes(sha256("\0".join([self.name, *identity]).encode()).digest()[:8])
        port = _PORTS_TO_DERIVE[digest % len(_PORTS_TO_DERIVE)]
        # MASTER_PORT belongs to torchrun's agent, or to torch's own store: never ours.
        return Address(host, port if str(port) != environ.get("MASTER_PORT") else port - 1)

    def host_of_rank_0(self, environ: Mapping[str, str]) -> str:
        """On one host the loopback interface does."""
        alone = bool(self.local_size) and environ.get(self.local_size) == environ.get(self.size)
        return LOOPBACK if alone else self.host(environ)

    def store(self, environ: Mapping[str, str]) -> Store | None:
        found = self.find_store(environ)
        return Store(*found, self.host_of_rank_0(environ)) if found else None

    def job_id(self, environ: Mapping[str, str]) -> str:
        return "-".join([self.name, *(environ[name] for name in self.job if environ.get(name))])


def _first_slurm_host(environ: Mapping[str, str]) -> str:
    """The first of node[07-09,12],other: node07. One node needs no name."""
    names = environ.get("SLURM_STEP_NODELIST", "")
    if names and not re.search(r"[,\[]", names):
        return LOOPBACK
    found = re.match(r"([^,\[]+)(?:\[(\w+)[^\]]*\]([^,\[]*))?", names)
    return "".join(part or "" for part in found.groups()) if found else ""


def _is_slurm_step(environ: Mapping[str, str]) -> bool:
    """A batch script or salloc's shell also has SLURM_PROCID=0, but is one process; its step number is special."""
    step = environ.get("SLURM_STEP_ID", "")
    return int(step) < 0xFFFFFFF0 if step.isdecimal() else bool(environ.get("SLURM_STEP_NODELIST"))


def _agents_store(environ: Mapping[str, str]) -> tuple[str, str] | None:
    """torchrun's agent serves a store on MASTER_PORT; without an agent, that port is for torch in rank 0 to serve."""
    served = environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True" and environ.get("MASTER_PORT")
    return ("tcp_store", f"{environ['MASTER_ADDR']}:{environ['MASTER_PORT']}") if served else None


def _pmix(environ: Mapping[str, str]) -> tuple[str, str] | None:
    """Open MPI says where it is installed, and its libpmix with it."""
    prefixes = (environ.get(name, "") for name in ("PMIX_PREFIX", "OPAL_PREFIX"))
    folders = [f"{prefix}/{lib}" for prefix in prefixes if prefix for lib in ("lib/openmpi", "lib", "lib64")]
    folders += filter(None, environ.get("LD_LIBRARY_PATH", "").split(":"))
    has_server = any(name.startswith("PMIX_SERVER_URI") for name in environ)
    return ("pmix", ":".join(dict.fromkeys(folders))) if has_server else None


def _pmi(environ: Mapping[str, str]) -> tuple[str, str] | None:
    return ("pmi", environ["PMI_FD"]) if environ.get("PMI_FD") else None


_NOWHERE: Callable[[Mapping[str, str]], str] = lambda environ: ""  # noqa: E731
LAUNCHERS = (
    Launcher(
        "torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", ("MASTER_ADDR",),
        ("TORCHELASTIC_RUN_ID", "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT"), lambda environ: environ["MASTER_ADDR"],
        _agents_store,
    ),
    Launcher(
        "openmpi", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE", (), ("PMIX_NAMESPACE",), _NOWHERE, _pmix,
    ),
    Launcher(  # Intel MPI's variables are the same; neither names the job, so no port follows from them
        "mpich", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", (), ("UNISONO_JOB",), _NOWHERE, _pmi,
    ),
    Launcher(
        "srun", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "", (), ("SLURM_JOB_ID", "SLURM_STEP_ID"),
        _first_slurm_host, applies=_is_slurm_step,
    ),
    Launcher(
        "kubernetes", "JOB_COMPLETION_INDEX", "UNISONO_SIZE", "", "", (), (), _NOWHERE,
    ),
)  # fmt: skip
