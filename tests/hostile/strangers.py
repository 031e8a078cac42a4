"""Processes that attack a job while a test goes on; none is left."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from types import TracebackType

from tests.comm.processes import KEY


class Attack:
    """Several attackers, who share the number of connections."""

    def __init__(self, pids: list[int], *, seed: int, connections: int, attackers: int = 2) -> None:
        variables = {"UNISONO_KEY": KEY, "UNISONO_JOB": "unisono"}
        self.made: Counter[str] = Counter()
        self.at: Counter[str] = Counter()
        self.processes = [
            subprocess.Popen(
                [sys.executable, "-m", "tests.hostile.attack", str(seed + number), str(connections // attackers),
                 *map(str, pids)],
                env=os.environ | variables,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for number in range(attackers)
        ]  # fmt: skip

    def __enter__(self) -> Attack:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for process in self.processes:
            process.kill()
            process.communicate()

    def wait(self, seconds: float) -> None:
        """Until all connections were made."""
        for process in self.processes:
            process.wait(seconds)
        self.stop()

    def stop(self) -> None:
        """Now, if they are not through; `made` and `at` have what they did."""
        for process in self.processes:
            out, _ = process.communicate(timeout=30)  # ends its input, which ends it
            assert process.returncode == 0, "an attacker was let in, or failed"
            report = json.loads(out)
            self.made.update(report["made"])
            self.at.update(report["at"])
