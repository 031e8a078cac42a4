"""Starts `unisono bench` as a user does, against libraries that are installed here or that misbehave."""

import os
import subprocess
import sys
from pathlib import Path

from unisono.bench.results import Measurement, Results

# A test run in the background may ignore SIGINT; then its children do too, and Ctrl-C could not be tested.
MAIN = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from unisono.cli.main import main
main()
"""
QUICK = ("--sizes", "8,1KiB", "--ranks", "2", "--rounds", "2", "--budget", "0.005")


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-c", MAIN, "bench", *map(str, arguments)]


def bench(*arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
    inherited = {name: text for name, text in os.environ.items() if name != "UNISONO_PEERS"}
    environment = {**inherited, **variables}
    return subprocess.run(command(*arguments), capture_output=True, text=True, timeout=120, env=environment)


def install_fake(directory: Path, home: str, mpiexec: str) -> Path:
    """An environment whose launcher is a few lines of shell."""
    programs = directory / home / "bin"
    programs.mkdir(parents=True)
    (programs / "python").symlink_to(sys.executable)
    (programs / "mpiexec").write_text(f"#!/bin/sh\n{mpiexec}\n")
    (programs / "mpiexec").chmod(0o755)
    return directory


def measured(contestant: str, microseconds: float, **more: object) -> Measurement:
    """A figure that nobody has measured."""
    usual: dict[str, object] = {
        "round": 0, "collective": "allreduce", "variant": "in-place", "ranks": 2, "bytes": 8, "iterations": 6,
        "loop_us": None, "algorithm": None, "version": "0",
    }  # fmt: skip
    times = {"median_us": microseconds, "p10_us": microseconds, "p90_us": microseconds}
    return Measurement(contestant=contestant, **{**usual, **times, **more})  # type: ignore[arg-type]


def results_of(*measurements: Measurement, **more: object) -> Results:
    """Of us and of two peers."""
    usual: dict[str, object] = {
        "links": "auto", "rounds": 3, "budget": 0.1, "ours": ["unisono"], "peers": ["impi", "openmpi"],
        "measurements": list(measurements),
    }  # fmt: skip
    return Results(**{**usual, **more})  # type: ignore[arg-type]
