"""One rank of a job that never rests: calls on the world, and beside them communicators that come and go.

python -m tests.hostile.busy_rank STOP: goes on until that file exists; reports in JSON what was wrong, if anything.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from tests.comm.processes import KEY, free_port

import unisono
from unisono.comm.communicator import Communicator

LATENESS = 0.15  # of the last rank, where a communicator is made from the start
WARM = 6  # turns, before memory and descriptors are counted


def memory() -> int:
    """Of this process alone, in KiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def is_over(comm: Communicator, stop: Path) -> bool:
    """Rank 0 has seen the file."""
    return bool(comm.broadcast(np.array([comm.rank == 0 and stop.exists()], np.int64))[0])


def check(comm: Communicator, seed: int) -> bool:
    rng = np.random.default_rng(seed)
    parts = rng.integers(-1000, 1000, (comm.size, int(rng.integers(1, 20_000))))
    return bool(np.array_equal(comm.allreduce(parts[comm.rank]), parts.sum(axis=0)))


def meet_late(comm: Communicator) -> Communicator:
    """The same ranks from the start, as if the job began again; the last of them is late."""
    port = int(comm.broadcast(np.array([0 if comm.rank else free_port()]))[0])
    if comm.rank == comm.size - 1:
        time.sleep(LATENESS)
    return unisono.init(rank=comm.rank, size=comm.size, rendezvous=f"127.0.0.1:{port}", key=KEY, deadline=30)


def make(side: Communicator, turn: int) -> Communicator:
    if turn % 3 == 2:
        return meet_late(side)
    part = side.duplicate() if turn % 3 else side.split(side.rank % 2)
    assert part is not None
    return part


def regroup(side: Communicator, stop: Path, report: dict[str, Any]) -> None:
    for turn in count():
        if turn == WARM:
            report |= {"memory before": memory(), "descriptors before": descriptors()}
        if is_over(side, stop) and turn > WARM:
            break
        with make(side, turn) as part:
            report["wrong"] += not check(part, turn)
        report["regroups"] += 1
    report |= {"memory after": memory(), "descriptors after": descriptors()}


def run(stop: Path) -> dict[str, Any]:
    report: dict[str, Any] = {"wrong": 0, "calls": 0, "regroups": 0}
    with unisono.init(deadline=60) as comm, comm.duplicate() as side:
        beside = threading.Thread(target=regroup, args=(side, stop, report))
        beside.start()
        while comm.allreduce([int(beside.is_alive())], "max")[0]:
            report["wrong"] += not check(comm, report["calls"])
            report["calls"] += 1
        beside.join()
    return report


if __name__ == "__main__":
    print(json.dumps(run(Path(sys.argv[1]))))
