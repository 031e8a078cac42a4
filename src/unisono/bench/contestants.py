"""Who takes part, and the processes of each: ours as `unisono run` starts them, a peer's as its launcher does."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from .. import config
from .peers import Peer, peers_for

RANK = Path(__file__).with_name("rank.py")
OURS = {"unisono": "unisono", "unisono empty()": "unisono-empty"}  # name: as rank.py calls it
_OUTER = ("PMI_", "PMIX_", "OMPI_COMM_", "PRTE_")  # what a launcher around us has told us is not for other jobs


@dataclass(frozen=True)
class Start:
    """One process to start."""

    command: tuple[str, ...]
    environment: Mapping[str, str]


class Contestant(Protocol):
    """Somebody whose ranks can be started."""

    @property
    def name(self) -> str: ...

    def starts(self, ranks: int, task: tuple[str, ...], directory: Path) -> list[Start]:
        """The processes to start; `task` is what rank.py is told, `directory` is theirs to use."""
        ...


@dataclass(frozen=True)
class Unisono:
    """We, on one kind of arrays and links, from the interpreter that runs this."""

    name: str
    links: str

    def starts(self, ranks: int, task: tuple[str, ...], directory: Path) -> list[Start]:
        run = (sys.executable, "-c", "from unisono.cli.main import main; main()", "run", "-n", str(ranks))
        # A failure is reported with its last lines; nobody reads the dumps of a directory that is removed.
        environment = {"UNISONO_DUMP": "off", **_environment(), "UNISONO_LINKS": self.links}
        return [Start((*run, str(RANK), "--library", OURS[self.name], *task), environment)]


@dataclass(frozen=True)
class Other:
    """A peer and where its programs are."""

    peer: Peer
    programs: Path

    @property
    def name(self) -> str:
        return self.peer.name

    def starts(self, ranks: int, task: tuple[str, ...], directory: Path) -> list[Start]:
        inherited = _environment()
        environment = {**inherited, **self.peer.variables, "PATH": f"{self.programs}:{inherited.get('PATH', '')}"}
        rank = (str(self.programs / "python"), str(RANK), "--library", self.peer.library, *task)
        if self.peer.mpiexec is None:
            meeting = ("--ranks", str(ranks), "--store", str(directory / "store"))
            return [Start((*rank, *meeting, "--rank", str(number)), environment) for number in range(ranks)]
        mpiexec = (str(self.programs / "mpiexec"), *self.peer.mpiexec, "-n", str(ranks))
        return [Start((*mpiexec, *rank), environment)]


def _environment() -> dict[str, str]:
    inherited = {name: text for name, text in config.inherited().items() if not name.startswith(_OUTER)}
    return {**inherited, "OMP_NUM_THREADS": "1"}


def choose_peers(names: list[str], links: str, directory: Path | None) -> tuple[list[Other], dict[str, str]]:
    """Those that are installed; and of those that are not, how to install them."""
    found, missing = [], {}
    for name in names:
        peer = peers_for(links)[name]
        programs = peer.find(directory.absolute()) if directory else None
        if programs:
            found.append(Other(peer, programs))
        else:
            missing[name] = peer.how_to_install(str(directory or "DIR"))
    return found, missing
