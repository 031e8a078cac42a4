"""A rank that was stopped in a call and is continued after its peers have left it writes into none of their arrays."""

from __future__ import annotations

import os
import random
import secrets
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import unisono
from unisono.comm.communicator import Communicator
from unisono.errors import PeerLost, UnisonoError

PATTERN = 7.0


def call_until_it_fails(comm: Communicator, x: np.ndarray) -> None:
    while True:
        comm.allreduce(x, "max", out=x, deadline=2)


def stop_in_a_call(lent: bool, pause: float, directory: Path) -> list[str]:
    """Rank 1 is stopped at some instant of a series of calls; the others give up, use their arrays, and look."""
    outcomes = directory / "outcomes"
    outcomes.mkdir()

    def job() -> None:
        comm = unisono.init(deadline=20)
        x = (comm.empty if lent else np.empty)(2_000_000, np.float64)
        x[:] = 1
        if comm.rank == 1:
            (directory / "pid").write_text(str(os.getpid()))
        comm.barrier()
        stopped = int((directory / "pid").read_text())
        timer = threading.Timer(pause, os.kill, (stopped, signal.SIGSTOP))
        if comm.rank == 2:
            timer.start()
        with pytest.raises(UnisonoError):
            call_until_it_fails(comm, x)
        if comm.rank == 1:
            return
        x[:] = PATTERN
        (outcomes / f"left-{comm.rank}").touch()
        while len(list(outcomes.glob("left-*"))) < 2:
            time.sleep(0.01)
        if comm.rank == 2:
            timer.join()  # it was stopped, before or after the others gave up
            with suppress(ProcessLookupError):
                os.kill(stopped, signal.SIGCONT)
        time.sleep(0.3)
        (outcomes / f"rank-{comm.rank}").write_text(str(bool((x == PATTERN).all())))

    with suppress(PeerLost):  # of rank 1, if it had to be ended
        unisono.launch(job, 3, timeout=60)
    return [(outcomes / f"rank-{rank}").read_text() for rank in (0, 2)]


@pytest.mark.soak
@pytest.mark.parametrize("lent", [False, True], ids=["private", "lent"])
def test_nothing_is_written_into_an_array_that_its_owner_uses_again(lent: bool, tmp_path: Path, soak: bool) -> None:
    seed = secrets.randbits(32) if soak else 1
    print(f"seed {seed}")
    rng = random.Random(seed)
    for turn in range(50 if soak else 3):
        directory = tmp_path / str(turn)
        directory.mkdir()
        assert stop_in_a_call(lent, rng.uniform(0.05, 0.3), directory) == ["True", "True"]
