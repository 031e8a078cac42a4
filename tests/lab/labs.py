"""Labs for tests: whether there can be any here, the command as a user types it, and what a lab might leave."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.launcher.processes import MAIN, processes_with

from unisono.errors import ConfigError
from unisono.lab import Lab, state
from unisono.lab.requirements import need_capabilities, need_iproute2

SECONDS = 120


def reason_to_skip() -> str:
    try:
        need_capabilities()
        need_iproute2()
    except ConfigError as error:
        return str(error)
    return ""


needs_lab = pytest.mark.skipif(bool(reason_to_skip()), reason=reason_to_skip())


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-c", MAIN, "lab", *map(str, arguments)]


def unisono_lab(*arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*arguments), capture_output=True, text=True, timeout=SECONDS, **options)  # type: ignore[call-overload]


def run_code(lab: Lab, code: str, *arguments: object, ranks: int) -> list[str]:
    """What the ranks print, by rank: one line each."""
    done = lab.run(sys.executable, "-c", code, *arguments, ranks=ranks, timeout=SECONDS)
    assert done.returncode == 0, done.stderr
    lines = sorted(done.stdout.splitlines(), key=lambda line: int(line[1 : line.index("]")]))
    assert len(lines) == ranks, done.stdout
    return [line.partition("] ")[2] for line in lines]


def seen_by_machine() -> list[str]:
    """Interfaces and mounts such as a lab makes, in the machine's own namespaces, where none of them belongs."""
    mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return [
        *(path.name for path in Path("/sys/class/net").iterdir() if path.name.startswith(("host", "bridge"))),
        *(path for path in mounts if path in ("/tmp", "/dev/shm", "/proc", "/sys", "/etc/hosts")),
    ]


def remains_of(name: str) -> list[object]:
    """Processes that keep a host of that lab, and its file."""
    return [*processes_with(f"{name}/"), *(other for other in state.names() if other == name)]
