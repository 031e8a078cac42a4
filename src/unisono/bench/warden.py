"""Ends every process of a benchmark, wherever its launchers have put it.

Launchers give ranks their own sessions and process groups, so these are found by a mark in the environment that all of
them inherit. Run by path, without the package, as a guard: when the benchmark is gone, however it went, its standard
input ends, and what it left behind is ended and removed.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from contextlib import suppress

MARK = "UNISONO_BENCH_MARK"
PATIENCE = 5.0
_FIRST_PAUSE = 0.001


def marked(mark: str) -> list[int]:
    """The processes that have it. Zombies have no environment any more."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for name in os.listdir("/proc"):
        if name.isdecimal():
            with suppress(OSError), open(f"/proc/{name}/environ", "rb") as file:  # another's, or just ended
                if wanted in file.read().split(b"\0"):
                    found.append(int(name))
    return found


def end_marked(mark: str) -> None:
    """Kill them, and whom they start meanwhile, until there are none."""
    end, pause = time.monotonic() + PATIENCE, _FIRST_PAUSE
    while (found := marked(mark)) and time.monotonic() < end:
        for pid in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(pause)
        pause *= 2


def guard(mark: str, directories: list[str]) -> None:
    """Wait for the end of the benchmark, then clean up."""
    sys.stdin.read()
    end_marked(mark)
    for directory in directories:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    guard(sys.argv[1], sys.argv[2:])
