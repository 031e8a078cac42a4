"""Communicators between real processes: start, results, failures."""

import ctypes
import os
import re
import signal
import socket
import time
from pathlib import Path

import numpy as np
import pytest
from tests.comm.processes import shared_memory
from tests.launcher.processes import eventually

import unisono
from unisono.errors import DeadlineExceeded, MismatchError, PeerLost, UnisonoError


@pytest.mark.parametrize("links", ["auto", "tcp"])
@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_ranks_agree_on_a_sum(ranks: int, links: str) -> None:
    def job() -> float:
        with unisono.init(links=links) as comm:
            return float(comm.allreduce(np.full(1000, comm.rank + 1.0)).mean())

    assert unisono.launch(job, ranks, timeout=60) == [ranks * (ranks + 1) / 2] * ranks


@pytest.mark.parametrize("links", ["auto", "staged", "tcp"])
def test_arrays_of_all_sizes_are_reduced_where_they_are(links: str) -> None:
    def job() -> str:
        with unisono.init(links=links) as comm:
            for length in (1, 1000, 5000, 1_000_003):
                for empty in (np.empty, comm.empty):
                    x = empty(length, np.int64)
                    x[:] = np.arange(length) * (comm.rank + 1)
                    total = comm.allreduce(x)
                    np.testing.assert_array_equal(total, 6 * np.arange(length))
                    comm.allreduce(x, "max", out=x)
                    np.testing.assert_array_equal(x, 3 * np.arange(length))
            return comm.stats()["sharing"]

    sharing = {"auto": "direct", "staged": "staged", "tcp": "none"}[links]
    assert unisono.launch(job, 3, timeout=60) == [sharing] * 3


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody whose processes cannot be read")
@pytest.mark.parametrize("readable", [True, False])
def test_ranks_that_may_not_read_each_other_use_the_stage(readable: bool) -> None:
    pr_set_dumpable, nobody = 4, 65534

    def job() -> tuple[str, float]:
        if not readable:
            socket.getaddrinfo("127.0.0.1", 0)  # imports something, which nobody may not
            os.setgid(nobody)
            os.setuid(nobody)
            if ctypes.CDLL(None).prctl(pr_set_dumpable, 0) != 0:
                raise OSError("prctl")
        with unisono.init() as comm:
            return comm.stats()["sharing"], float(comm.allreduce(np.full(300_000, 2.0)).max())

    assert unisono.launch(job, 2, timeout=60) == [("direct" if readable else "staged", 4.0)] * 2


def test_ranks_know_their_place() -> None:
    def job() -> tuple[int, int, int, int]:
        with unisono.init() as comm:
            return comm.rank, comm.size, comm.local_rank, len(set(comm.hosts))

    assert unisono.launch(job, 3, timeout=60) == [(0, 3, 0, 1), (1, 3, 1, 1), (2, 3, 2, 1)]


@pytest.mark.parametrize(("links", "kind"), [("auto", "shm"), ("tcp", "tcp")])
def test_ranks_know_how_they_reach_each_other(links: str, kind: str) -> None:
    def job() -> list[str]:
        with unisono.init(links=links) as comm:
            return comm.links

    assert unisono.launch(job, 2, timeout=60) == [["self", kind], [kind, "self"]]


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("links", ["auto", "tcp"])
@pytest.mark.parametrize("algorithm", ["ring", "mst", "direct"])
def test_a_killed_rank_is_noticed_by_all_others(algorithm: str, links: str, tmp_path: Path) -> None:
    def job() -> None:
        comm = unisono.init(links=links)
        comm.barrier()
        if comm.rank == 1:
            assert eventually(lambda: len(list(tmp_path.glob("calls-*"))) == 3)
            (tmp_path / "killed").write_text(str(time.monotonic()))
            os.kill(os.getpid(), signal.SIGKILL)
        (tmp_path / f"calls-{comm.rank}").touch()
        try:
            comm.allreduce(np.ones(1_000_000), algorithm=algorithm)
        except PeerLost as error:
            since = time.monotonic() - float((tmp_path / "killed").read_text())
            (tmp_path / f"survivor-{comm.rank}").write_text(f"{since} {error}")

    with pytest.raises(PeerLost, match="rank 1"):
        unisono.launch(job, 4, timeout=60)
    for rank in (0, 2, 3):
        since, _, text = (tmp_path / f"survivor-{rank}").read_text().partition(" ")
        assert float(since) < 20  # within a second on a quiet machine
        assert re.match(r"rank [023] .* lost rank 1 ", text), "the first who noticed it has told the others"


def test_a_deadline_says_who_is_awaited(tmp_path: Path) -> None:
    def job() -> str:
        with unisono.init() as comm:
            comm.barrier()
            if comm.rank == 0:
                assert eventually((tmp_path / "told").exists)
                return ""
            with pytest.raises(DeadlineExceeded, match=r"rank 1 .* has waited .* s for rank 0") as caught:
                comm.allreduce(np.ones(3), deadline=0.2)
            (tmp_path / "told").touch()
            return str(caught.value)

    assert unisono.launch(job, 2, timeout=60)[1]


def test_ranks_that_call_different_things_are_told() -> None:
    def job() -> str:
        comm = unisono.init()
        x = np.ones(10) if comm.rank == 0 else np.ones(11)
        try:
            comm.allreduce(x, deadline=5)
        except UnisonoError as error:
            return type(error).__name__
        return "none"

    assert MismatchError.__name__ in unisono.launch(job, 2, timeout=60)


def test_a_closed_communicator_refuses_calls() -> None:
    comm = unisono.init(rank=0, size=1)
    assert comm.allreduce([1, 2]) == [1, 2]
    comm.close()
    comm.close()
    with pytest.raises(UnisonoError, match="closed"):
        comm.barrier()


def test_nothing_is_left_in_shared_memory() -> None:
    before = shared_memory()
    unisono.launch(lambda: unisono.init().barrier(), 3, timeout=60)
    assert shared_memory() <= before


@pytest.mark.parametrize("links", ["auto", "tcp"])
def test_a_communicator_is_split_and_duplicated(links: str) -> None:
    def job() -> tuple[list[int], int, int, int]:
        with unisono.init(links=links) as comm:
            row = comm.split(comm.rank // 2, key=-comm.rank)
            assert row is not None
            members = row.allgather(np.array([comm.rank])).ravel().tolist()
            nobody = comm.split(None if comm.rank else 0)
            alone = nobody.size if nobody else 0
            with comm.duplicate() as twin:
                started = twin.start("allreduce", [1])
                total = comm.allreduce([comm.rank])[0]
                assert started.wait() == [comm.size]
            row.close()
            return members, row.rank, alone, total

    assert unisono.launch(job, 5, timeout=60) == [
        ([1, 0], 1, 1, 10),
        ([1, 0], 0, 0, 10),
        ([3, 2], 1, 0, 10),
        ([3, 2], 0, 0, 10),
        ([4], 0, 0, 10),
    ]


def test_the_lectures_program_runs_as_printed() -> None:
    def job() -> None:
        from unisono import communicator

        comm = communicator.create()
        a = [1, 2, 3] if comm.rank == 0 else [1, 0, 1]
        b = comm.allreduce(a, op=sum)
        assert b == [2, 2, 4]
        comm.close()

    unisono.launch(job, 2, timeout=60)
