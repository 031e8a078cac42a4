"""Traces of real jobs, for the tests that look at them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from unisono.cli.main import main
from unisono.comm.communicator import Communicator


def events_of(directory: Path, rank: int) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = json.loads((directory / f"rank-{rank}.json").read_text())
    return events


def merged(directory: Path, *options: str) -> tuple[list[dict[str, Any]], str]:
    """The events of all ranks, and what the command says."""
    run = merge(directory, *options)
    assert run.returncode == 0, run.stderr
    return json.loads((directory / "merged.json").read_text())["traceEvents"], run.stdout


def merge(directory: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return command("trace", "merge", str(directory), *options)


def command(*words: str) -> subprocess.CompletedProcess[str]:
    """`unisono` with these words, in this process."""
    arguments, sys.argv = sys.argv, ["unisono", *words]
    out, err = StringIO(), StringIO()
    try:
        with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as ended:
            main()
    finally:
        sys.argv = arguments
    return subprocess.CompletedProcess(sys.argv, int(ended.value.code or 0), out.getvalue(), err.getvalue())


def calls(events: list[dict[str, Any]], rank: int | None = None) -> list[dict[str, Any]]:
    """All calls, or those of a rank. One that was written while it went on has two events: here it has one."""
    found: list[dict[str, Any]] = []
    begun: dict[tuple[int, int], dict[str, Any]] = {}
    for event in call_events(events, rank):
        track = event["pid"], event["tid"]
        if event["ph"] == "E":
            begin = begun.pop(track)
            begin |= {"ph": "X", "dur": event["ts"] - begin["ts"], "args": event["args"]}
            continue
        found.append(dict(event))
        if event["ph"] == "B":
            begun[track] = found[-1]
    return found


def call_events(events: list[dict[str, Any]], rank: int | None = None) -> list[dict[str, Any]]:
    kinds = ("collective", "point to point")
    return [event for event in events if event.get("cat") in kinds and rank in (None, event["pid"])]


def waits(events: list[dict[str, Any]], rank: int) -> list[dict[str, Any]]:
    return [event for event in events if event.get("cat") == "wait" and event["pid"] == rank]


def leave_together(directory: Path) -> None:
    """Called last by every rank of a job: who is still in the last call takes the end of another rank for a failure."""
    size = int(os.environ["UNISONO_SIZE"])
    directory.mkdir(exist_ok=True)
    (directory / os.environ["UNISONO_RANK"]).touch()
    wait_until(lambda: len(list(directory.iterdir())) == size)


def tell_that_it_waits(comm: Communicator, peer: int, directory: Path) -> None:
    """That a rank has waited for that peer in its last call far longer than for all others: a file in the directory."""

    def waits() -> bool:
        *_, call = comm.stats()["recent"]
        others = [facts["waited"] for other, facts in call["peers"].items() if other != peer]
        return bool(call["ended"] is None and call["peers"][peer]["waited"] > sum(others) + 0.5)

    wait_until(waits)
    directory.mkdir(exist_ok=True)
    (directory / str(comm.rank)).touch()


def wait_until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)
