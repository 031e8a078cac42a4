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
MEMORY = "/dev/shm/"
GRACE = 1.0  # seconds that launchers have to remove their files
PATIENCE = 5.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.001, 0.05


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


def segments(pids: list[int]) -> set[str]:
    """Shared memory with a name that these processes have mapped: who is killed does not remove it."""
    found = set()
    for pid in pids:
        with suppress(OSError), open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as file:
            paths = (line.rstrip("\n").partition(MEMORY)[2] for line in file)
            found |= {MEMORY + path for path in paths if path and not path.endswith(" (deleted)")}
    return found


def end_marked(mark: str) -> None:
    """Ask them to end, then kill them and whom they start meanwhile, until there are none; remove what they shared."""
    left = marked(mark)
    shared = segments(left)
    if not _signalled(mark, signal.SIGTERM, GRACE):
        _signalled(mark, signal.SIGKILL, PATIENCE)
    for path in shared:
        with suppress(OSError):
            os.unlink(path)


def _signalled(mark: str, number: signal.Signals, seconds: float) -> bool:
    """Whether they were gone in time."""
    end, pause = time.monotonic() + seconds, _FIRST_PAUSE
    told: set[int] = set()
    while left := marked(mark):
        if time.monotonic() > end:
            return False
        for pid in set(left) - told:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
        told.update(left)
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)
    return True


def guard(mark: str, directories: list[str]) -> None:
    """Wait for the end of the benchmark, then clean up."""
    sys.stdin.read()
    end_marked(mark)
    for directory in directories:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    guard(sys.argv[1], sys.argv[2:])
