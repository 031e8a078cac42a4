"""Clocks of several hosts: real connections, and clocks that are shifted on purpose."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.comm.processes import KEY, free_port
from tests.trace.traces import calls, events_of, merged

from unisono.comm.clock import Alignment, align
from unisono.comm.control import Control
from unisono.comm.frames import Channel

HOUR = 3600 * 10**9


@pytest.fixture
def star() -> Iterator[list[Control]]:
    names = [f"rank {rank}" for rank in range(4)]
    pairs = {rank: socket.socketpair() for rank in range(1, 4)}
    controls = [Control(0, names, {rank: Channel(pair[0]) for rank, pair in pairs.items()})]
    controls += [Control(rank, names, {0: Channel(pair[1])}) for rank, pair in pairs.items()]
    for control in controls:
        for channel in control.channels.values():
            channel.trusted = True
    yield controls
    for control in controls:
        control.close()


def test_each_rank_learns_how_far_its_clock_is_from_rank_0s(star: list[Control]) -> None:
    shifts = [0, 0, HOUR, -2 * HOUR]
    hosts = ["a", "a", "b", "c"]

    def work(control: Control) -> Alignment:
        shift = shifts[control.rank]
        return align(control, deadline=30, clock=lambda: time.monotonic_ns() + shift, identity=hosts[control.rank])

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(work, star))
    assert len({alignment.run for alignment in found}) == 1
    for alignment, shift in zip(found, shifts, strict=True):
        assert abs(alignment.offset + shift) <= alignment.error
        assert (alignment.error > 0) == (shift != 0)


def test_ranks_on_one_host_have_the_same_clock(star: list[Control]) -> None:
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda control: align(control, deadline=30), star))
    assert {alignment[1:] for alignment in found} == {(0, 0)}


JOB = """
import sys
from pathlib import Path
import unisono
from tests.trace.traces import leave_together
with unisono.init() as comm:
    for _ in range(3):
        comm.allreduce([1.0])
leave_together(Path(sys.argv[1]))
"""


def test_ranks_whose_kernels_clocks_differ_are_merged_on_one(tmp_path: Path) -> None:
    """A time namespace is the part of another host that matters here."""
    shifted = [shutil.which("unshare") or "unshare", "--time", "--monotonic", "36000", "--fork"]
    if not shutil.which("unshare") or subprocess.run([*shifted, "true"], capture_output=True).returncode:
        pytest.skip("no time namespaces: that takes unshare of util-linux, and root")
    job = {
        "UNISONO_SIZE": "2",
        "UNISONO_RENDEZVOUS": f"127.0.0.1:{free_port()}",
        "UNISONO_KEY": KEY,
        "UNISONO_DEADLINE": "30",
        "UNISONO_TRACE": str(tmp_path),
    }
    ranks = [
        subprocess.Popen(
            [*prefix, sys.executable, "-c", JOB, str(tmp_path / "left")],
            env={**os.environ, **job, "UNISONO_RANK": str(rank)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank, prefix in enumerate([[], shifted])
    ]
    try:
        assert [(process.communicate(timeout=120)[1], process.returncode) for process in ranks] == [("", 0), ("", 0)]
    finally:
        for process in ranks:
            process.kill()
            process.wait()
    apart = [calls(events_of(tmp_path, rank))[0]["ts"] for rank in range(2)]
    assert abs(apart[1] - apart[0]) > 35_000e6
    events, _ = merged(tmp_path)
    for sequence in range(3):
        one, other = (call for call in calls(events) if call["args"]["sequence"] == sequence)
        error = 1e-3 * events_of(tmp_path, 1)[0]["args"]["clock_error_ns"]
        assert abs(one["ts"] - other["ts"]) < 30e6  # of the 36,000 s between their clocks
        assert max(one["ts"], other["ts"]) < min(one["ts"] + one["dur"], other["ts"] + other["dur"]) + error
