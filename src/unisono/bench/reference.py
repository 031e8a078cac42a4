"""Figures of the peers that are known for a machine. Whoever finds others has another machine, or not a quiet one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from ..errors import ConfigError
from .cells import Cell
from .ratios import Standing

TOLERANCE = 0.3


class Reference(NamedTuple):
    """Microseconds by collective/variant/links/ranks/bytes/peer; links are auto (shared memory) or tcp."""

    machine: str
    microseconds: dict[str, float]

    def find(self, cell: Cell, links: str, peer: str) -> float | None:
        over = "tcp" if links == "tcp" else "auto"
        return self.microseconds.get(f"{cell.collective}/{cell.variant}/{over}/{cell.ranks}/{cell.nbytes}/{peer}")


class Deviation(NamedTuple):
    """A peer's median that is not what it should be."""

    standing: Standing
    known: float

    @property
    def factor(self) -> float:
        return self.standing.time.median / self.known


def read_reference(path: Path) -> Reference:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return Reference(str(found["machine"]), {str(key): float(us) for key, us in found["microseconds"].items()})
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"--reference {path}: {error}; see benchmarks/reference for how it is written") from error


def deviations(found: list[Standing], reference: Reference, links: str) -> tuple[list[Deviation], int]:
    """The figures that are off by more than the tolerance, in either direction; and how many were compared."""
    known = [(one, us) for one in found if (us := reference.find(one.cell, links, one.contestant)) is not None]
    off = [Deviation(one, us) for one, us in known if abs(one.time.median / us - 1) > TOLERANCE]
    return off, len(known)
