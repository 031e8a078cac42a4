"""Where the ranks of a job write what they did if they fail, and who is told of it."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

from .. import config
from ..trace.ends import End, write_ends
from .job import Job

SLACK = 2.0
"""Seconds by which the clock of a file system may differ from ours."""


class Dumps:
    """Of one job. Nothing is made here: that is up to a rank that fails."""

    def __init__(self, job: Job, *, only_if_asked_for: bool = False) -> None:
        told = config.inherited().get("UNISONO_DUMP")
        default = None if only_if_asked_for else str(job.dump_directory)
        self._directory = config.dump_directory(told or default)
        self._variables = {"UNISONO_DUMP": default} if default and not told else {}
        self._job = job
        self._began = time.time()

    def variables(self) -> dict[str, str]:
        """For the ranks."""
        return self._variables

    def hint(self) -> str | None:
        """What to tell the user of a job that has failed, if some rank has written something."""
        if self._directory is None or not self._has_new_files(Path(self._directory)):
            return None
        return f"what each rank did is in {self._directory}; see: unisono diagnose {self._directory}"

    def add_ends(self, ends: list[End]) -> None:
        """What only the launcher knows, for the diagnosis. That it cannot be written is no reason to fail."""
        if self._directory is not None:
            with suppress(OSError):
                write_ends(Path(self._directory), self._job.name, self._job.node_rank, ends)

    def _has_new_files(self, directory: Path) -> bool:
        with suppress(OSError):
            return any(file.stat().st_mtime > self._began - SLACK for file in directory.glob("rank-*.failure.json"))
        return False
