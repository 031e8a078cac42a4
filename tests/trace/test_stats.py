"""What a communicator knows about its calls, always."""

from __future__ import annotations

import inspect
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from tests.comm.world import World
from tests.trace.traces import leave_together, wait_until

import unisono
from unisono.comm.communicator import Communicator
from unisono.comm.sites import MOST_SITES, UNKNOWN, Sites
from unisono.errors import DeadlineExceeded


def here(offset: int = 0) -> str:
    frame = inspect.stack()[1]
    return f"{frame.filename}:{frame.lineno + offset}"


def test_the_last_calls_are_known_with_all_their_facts() -> None:
    def job(comm: Communicator) -> None:
        before = time.monotonic()
        comm.allreduce(np.ones(1000, np.float32), op="max", algorithm="ring")
        where = here(-1)
        comm.broadcast(np.ones(3), root=2)
        allreduce, broadcast = comm.stats()["recent"]
        assert (allreduce["sequence"], allreduce["collective"], allreduce["algorithm"]) == (0, "allreduce", "ring")
        assert (allreduce["bytes"], allreduce["dtype"], allreduce["op"]) == (4000, "float32", "max")
        assert allreduce["where"] == where
        assert before <= allreduce["started"] <= allreduce["ended"] <= broadcast["started"] <= time.monotonic()
        assert allreduce["outcome"] == "done"
        before_us, after_us = (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size
        assert set(allreduce["peers"]) == {before_us, after_us}
        assert allreduce["peers"][before_us]["expected"]
        assert allreduce["started"] <= allreduce["peers"][before_us]["arrived"] <= allreduce["ended"]
        assert allreduce["peers"][after_us] == {"expected": False, "arrived": None, "waited": 0.0} or comm.size == 2
        assert (broadcast["sequence"], broadcast["op"], broadcast["root"]) == (1, None, 2)

    with World(3) as world:
        world.run(job)


def test_a_call_is_known_by_the_line_of_the_user_whatever_is_between() -> None:
    def job(comm: Communicator) -> None:
        comm.allgatherv(np.ones(comm.rank + 1))
        where = [here(-1)] * 2  # lengths, then parts
        comm.start("allreduce", [1]).wait()
        where += [here(-1)]
        comm.allgather_object({"a": 1})
        where += [here(-1)] * 3
        first = comm.start("allreduce", np.ones(100_000))
        where += [here(-1)]
        comm.barrier()  # runs after the one that was started, perhaps in its thread
        where += [here(-1)]
        first.wait()
        if comm.rank == 0:
            comm.send(np.ones(2), 1)
            where += [here(-1)]
        else:
            comm.recv(0, out=np.ones(2))
            where += [here(-1)]
        recent = comm.stats()["recent"]
        assert [call["where"] for call in recent] == where
        assert recent[-1]["collective"] == ("send" if comm.rank == 0 else "recv")
        assert (recent[-1]["sequence"], recent[-1]["bytes"]) == (None, 16)

    with World(2, allow_pickle=True) as world:
        world.run(job)


def test_a_program_that_generates_its_code_does_not_fill_the_memory() -> None:
    sites = Sites()
    sites._places = [(here.__code__, 0)] * MOST_SITES
    assert sites.caller(depth=1) == UNKNOWN
    assert sites.name(UNKNOWN) == ""


@pytest.mark.parametrize("links", ["shm", "tcp"])
def test_a_late_rank_is_known_to_those_that_waited(links: str) -> None:
    def waits_for_rank_2_only(comm: Communicator) -> bool:
        call, other = comm.stats()["recent"][-1], 1 - comm.rank
        came = call["collective"] == "allreduce" and call["peers"][other]["arrived"] is not None
        return came and call["peers"][2]["waited"] > call["peers"][other]["waited"] + 0.3

    def job(comm: Communicator) -> None:
        comm.barrier()
        before = comm.stats()["waited"]
        if comm.rank == 2:
            wait_until(lambda: all(map(waits_for_rank_2_only, world.ranks[:2])), 15)
        comm.allreduce(np.ones(10), algorithm="direct")
        if comm.rank != 2:
            stats = comm.stats()
            call, other = stats["recent"][-1], 1 - comm.rank
            assert 0.2 < call["peers"][2]["waited"] < 20
            assert call["peers"][2]["waited"] <= call["ended"] - call["started"]
            assert 0.2 < call["peers"][2]["arrived"] - call["started"] < 20
            assert call["peers"][other]["waited"] < call["peers"][2]["waited"]  # though it could not go on, either
            assert call["peers"][other]["arrived"] < call["peers"][2]["arrived"]
            assert stats["waited"][2] - before[2] == pytest.approx(call["peers"][2]["waited"])
            assert stats["waited"][comm.rank] == 0

    with World(3, links) as world:
        world.run(job)


def test_a_call_under_way_is_seen_from_another_thread() -> None:
    seen: list[dict[str, object]] = []

    def job(comm: Communicator) -> None:
        if comm.rank == 0:
            done = threading.Event()
            looking = threading.Thread(target=look, args=(comm, done))
            looking.start()
            comm.allreduce(np.ones(3), algorithm="direct")
            looking.join()
            assert comm.stats()["recent"][-1]["outcome"] == "done"
        else:
            wait_until(lambda: bool(seen))
            comm.allreduce(np.ones(3), algorithm="direct")

    def look(comm: Communicator, done: threading.Event) -> None:
        wait_until(lambda: any(call["peers"][1]["waited"] > 0.01 for call in comm.stats()["recent"]))
        seen.extend(comm.stats()["recent"])

    with World(2) as world:
        world.run(job)
    (call,) = seen
    assert (call["outcome"], call["ended"]) == ("running", None)
    assert call["peers"][1]["arrived"] is None  # type: ignore[index]


def test_a_call_that_failed_says_who_had_not_come() -> None:
    def job(comm: Communicator) -> None:
        if comm.rank == 1:
            return
        with pytest.raises(DeadlineExceeded):
            comm.allreduce(np.ones(10), deadline=4, algorithm="direct")
        (call,) = comm.stats()["recent"]
        assert call["outcome"] == "failed"
        assert call["ended"] - call["started"] >= 0.15  # of the 4 s that the call has, some may go before
        assert call["peers"][1]["arrived"] is None
        assert call["peers"][1]["waited"] > 0.1

    with World(2) as world:
        world.run(job)


def test_only_the_last_calls_are_kept() -> None:
    with unisono.init(rank=0, size=1) as comm:
        for _ in range(300):
            comm.barrier()
        recent = comm.stats()["recent"]
        assert [call["sequence"] for call in recent] == list(range(300 - 256, 300))
        assert comm.stats()["calls"] == 300


def test_processes_know_whom_they_waited_for(tmp_path: Path) -> None:
    def tell_that_it_waits(comm: Communicator) -> None:
        wait_until(lambda: any(call["peers"][0]["waited"] > 0.1 for call in comm.stats()["recent"]))
        (tmp_path / "waits").touch()

    def job() -> list[float]:
        with unisono.init() as comm:
            if comm.rank == 0:
                wait_until((tmp_path / "waits").exists)
            else:
                threading.Thread(target=tell_that_it_waits, args=(comm,)).start()
            comm.barrier()
            waited: list[float] = comm.stats()["waited"]
        leave_together(tmp_path / "left")
        return waited

    assert unisono.launch(job, 2, timeout=60)[1][0] > 0.1
