"""One rank, as a process, that computes with the others until its fate comes, and goes on with who is left.

python -m tests.comm.shrinking_rank FATES CALL_DEADLINE SHRINK_DEADLINE [duplicate] [stay=DIRECTORY]

FATES is JSON, by rank: null lives; ["call", 3] kills itself in that call, ["time", 0.2] after so many seconds of
work, ["shrink", 0.01] so many seconds after it first calls shrink(); ["stop", 3] stops itself before that call. Who is
done waits for a file "end" in the directory, after it has left one with its rank. Prints JSON.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import threading
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np

import unisono
from unisono.comm.communicator import Communicator
from unisono.errors import DeadlineExceeded, PeerLost

LENGTHS = (1, 1000, 40_000)


def end() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def end_after(seconds: float) -> None:
    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()


def values(rank: int, call: int) -> np.ndarray:
    return np.random.default_rng([rank, call]).integers(-1000, 1000, LENGTHS[call % len(LENGTHS)])


class Rank:
    def __init__(self, comm: Communicator, fates: list[Any], deadlines: list[float]) -> None:
        self.comm = comm
        self.name = comm.rank
        self.kind, self.when = fates[comm.rank] or ("live", 0)
        self.survivors = [rank for rank, fate in enumerate(fates) if fate is None]
        self.call_deadline, self.shrink_deadline = deadlines
        self.calls = 0
        self.errors: list[str] = []

    def work(self) -> list[int]:
        """Until only those are left that will be; who they are."""
        names = self.comm.allgather(self.name, deadline=self.call_deadline)
        assert set(names) >= set(self.survivors), f"{names} went on without one that lives: {self.errors}"
        left = 3
        while names != self.survivors or left > 0:
            self.meet_fate()
            call = int(self.comm.allreduce(self.calls, max, deadline=self.call_deadline))
            total = self.comm.allreduce(values(self.name, call), deadline=self.call_deadline)
            assert (total == sum(values(name, call) for name in names)).all()
            self.calls = call + 1
            left -= 1
        return names

    def meet_fate(self) -> None:
        if self.kind == "call" and self.calls >= self.when:
            end_after(0)
        if self.kind == "stop" and self.calls >= self.when:
            self.kind = "stopped"
            os.kill(os.getpid(), signal.SIGSTOP)

    def shrink(self) -> None:
        if self.kind == "shrink":
            end_after(self.when)
        old = self.comm
        self.comm = old.shrink(deadline=self.shrink_deadline)
        old.close()

    def live(self) -> list[int]:
        if self.kind == "time":
            end_after(self.when)
        while True:
            try:
                return self.work()
            except (PeerLost, DeadlineExceeded) as error:
                self.errors.append(f"{type(error).__name__}: {error}")
                self.shrink()


def run() -> dict[str, Any]:
    fates, *deadlines = (json.loads(word) for word in sys.argv[1:4])
    options = dict(word.partition("=")[::2] for word in sys.argv[4:])
    with unisono.init() as whole, whole.duplicate() if "duplicate" in options else nullcontext(whole) as comm:
        rank = Rank(comm, fates, deadlines)
        report: dict[str, Any] = {}
        try:
            report |= {"left": rank.live(), "rank": rank.comm.rank, "size": rank.comm.size}
            with rank.comm.duplicate() as twin:
                assert twin.allreduce(1) == rank.comm.size
            if directory := options.get("stay"):
                stay(Path(directory), rank.name)
        except PeerLost as error:
            report["lost"] = str(error)
        rank.comm.close()
    return report | {"errors": rank.errors}


def stay(directory: Path, rank: int) -> None:
    (directory / str(rank)).touch()
    deadline = time.monotonic() + 60
    while not (directory / "end").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def open_files() -> list[str]:
    files = Path("/proc/self/fd")
    return sorted(os.readlink(files / name) for name in os.listdir(files) if (files / name).exists())


def main() -> None:
    before = open_files(), threading.active_count()
    report = run()
    gc.collect()  # an error has the frames that it passed through
    after = open_files(), threading.active_count()
    print(json.dumps(report | {"kept": [before, after] if after != before else None}))


if __name__ == "__main__":
    main()
