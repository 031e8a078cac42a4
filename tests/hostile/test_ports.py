"""Nobody listens longer than somebody is expected."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.hostile.ports import Door, doors_of
from tests.launcher.processes import eventually

import unisono
from unisono.errors import PeerLost

UNISONO = Path(sys.executable).with_name("unisono")
RANK = """
import os, pathlib, sys, time, unisono
folder = pathlib.Path(sys.argv[1])
comm = unisono.init(deadline=60)
parts = [comm.split(comm.rank % 2), comm.duplicate()]
comm.barrier()
(folder / f"pid-{os.getpid()}").touch()
while not (folder / "stop").exists():
    time.sleep(0.01)
"""


def doors_after_init(links: str) -> list[Door]:
    with unisono.init(deadline=60, links=links) as comm, comm.duplicate() as twin:
        twin.barrier()
        found = doors_of([os.getpid(), os.getppid()])
        twin.barrier()
    return found


@pytest.mark.parametrize("links", ["auto", "tcp"])
def test_ranks_of_a_function_and_their_launcher_listen_no_more_when_all_have_met(links: str) -> None:
    assert unisono.launch(doors_after_init, 3, links, timeout=60) == [[], [], []]


def test_ranks_of_a_command_and_their_launcher_listen_no_more_when_all_have_met(tmp_path: Path) -> None:
    script = tmp_path / "rank.py"
    script.write_text(RANK)
    with subprocess.Popen([UNISONO, "run", "-n", "3", script, tmp_path]) as launcher:
        try:
            deadline = time.monotonic() + 60
            while len(ranks := list(tmp_path.glob("pid-*"))) < 3:
                assert time.monotonic() < deadline
                assert launcher.poll() is None
                time.sleep(0.01)
            pids = [int(rank.name.removeprefix("pid-")) for rank in ranks]
            assert doors_of([launcher.pid, *pids]) == []
            (tmp_path / "stop").touch()
            assert launcher.wait(60) == 0
        finally:
            launcher.kill()


def split_with_the_dead(folder: Path) -> list[Door]:
    comm = unisono.init(deadline=20)
    comm.barrier()
    if comm.rank == 1:
        assert eventually((folder / "through").exists)  # or it would be lost in the barrier
        os._exit(0)
    (folder / "through").touch()
    with pytest.raises(PeerLost):
        comm.split(0)
    return doors_of([os.getpid()])


def test_a_split_that_fails_leaves_no_port_open(tmp_path: Path) -> None:
    found = tmp_path / "found"

    def job() -> None:
        found.write_text(str(split_with_the_dead(tmp_path)))

    with pytest.raises(Exception, match="rank 1"):
        unisono.launch(job, 2, timeout=60)
    assert found.read_text() == "[]"


def test_a_port_that_is_open_is_found() -> None:
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as unix:
        unix.bind(f"\0unisono-test-{os.getpid()}")
        unix.listen()
        assert set(doors_of([os.getpid()])) == {tcp.getsockname(), f"\0unisono-test-{os.getpid()}"}
