"""How the processes of a job ended, as their launcher saw it: DIR/launcher-N.ends.json, beside the dumps."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from .plain_file import read_all, read_plain, write_plain

FORMAT = 1
_NAME = re.compile(r"launcher-\d{1,9}\.ends\.json")


class End(NamedTuple):
    """Of one rank's process."""

    rank: int
    code: int  # as subprocess has it: -signal where one killed it
    by_launcher: bool  # it had been signalled, because another one had failed


class Ends(NamedTuple):
    """Of the ranks of one launcher."""

    format: int
    job: str
    node: int  # the number of the launcher
    ends: list[End]


def write_ends(directory: Path, job: str, node: int, ends: list[End]) -> Path:
    return write_plain(directory / f"launcher-{node}.ends.json", Ends(FORMAT, job, node, ends))


def read_ends(directory: Path, skipped: list[str]) -> list[Ends]:
    """All that are there; whatever else has such a name is added to what was skipped."""
    return list(read_all(directory, _NAME, lambda path: read_plain(path, Ends, FORMAT), skipped))
