"""Ranks die and are stopped, at any moment; those that are left go on, and agree on who they are."""

from __future__ import annotations

import json
import os
import random
import secrets
import signal
import socket
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.comm.processes import Job, report_of
from tests.comm.test_wiring import some_ports
from tests.comm.world import World

import unisono
from unisono.comm.communicator import Communicator
from unisono.errors import ConfigError, PeerLost

LINKS = ("auto", "staged", "tcp")  # "auto" uses the others' memory directly
Fates = list[Any]  # as tests/comm/shrinking_rank.py has them


def start(fates: Fates, links: str, *options: str, call: float = 30, shrink: float = 30) -> Job:
    job = Job(len(fates), UNISONO_LINKS=links)
    for rank in range(len(fates)):
        words = (json.dumps(fates), str(call), str(shrink), *options)
        job.start(rank, *words, module="tests.comm.shrinking_rank")
    return job


def survivors_of(fates: Fates) -> list[int]:
    return [rank for rank, fate in enumerate(fates) if fate is None]


def check_survivors(job: Job, fates: Fates) -> None:
    """All have computed with each other, and with nobody else, and nothing is left of it."""
    survivors = survivors_of(fates)
    for number, rank in enumerate(survivors):
        report = report_of(job.ranks[rank])
        assert report.get("left") == survivors, report
        assert (report["rank"], report["size"]) == (number, len(survivors))
        assert report["kept"] is None, report
        assert report["errors"]


def check_killed(job: Job, fates: Fates) -> None:
    for process, fate in zip(job.ranks, fates, strict=True):
        if fate:
            process.communicate(timeout=60)
            assert process.returncode == -signal.SIGKILL


@pytest.mark.parametrize(
    ("dead", "links"), [({0}, "auto"), ({0}, "tcp"), ({2}, "staged"), ({0, 1}, "tcp"), ({1, 3}, "auto")], ids=str
)
def test_survivors_of_deaths_go_on(dead: set[int], links: str) -> None:
    fates: Fates = [["call", 2] if rank in dead else None for rank in range(4)]
    with start(fates, links) as job:
        check_survivors(job, fates)
        check_killed(job, fates)


@pytest.mark.parametrize("links", ["auto", "tcp"])
def test_the_last_one_goes_on_alone(links: str) -> None:
    fates: Fates = [["call", 3], None]
    with start(fates, links) as job:
        check_survivors(job, fates)


def test_one_death_after_the_other() -> None:
    fates: Fates = [["call", 2], ["call", 5], None, ["call", 8], None]
    with start(fates, "auto") as job:
        check_survivors(job, fates)


def test_a_communicator_made_of_another_shrinks_as_well() -> None:
    fates: Fates = [["call", 2], None, None]
    with start(fates, "auto", "duplicate") as job:
        check_survivors(job, fates)


@pytest.mark.parametrize(("links", "seconds"), [("auto", 0.0), ("tcp", 0.02), ("auto", 0.05), ("tcp", 0.1)])
def test_a_death_among_those_who_shrink_is_another_loss(links: str, seconds: float) -> None:
    """The first to lead dies, and so does one that came to it."""
    fates: Fates = [["shrink", seconds], ["call", 2], None, ["shrink", seconds], None]
    with start(fates, links) as job:
        check_survivors(job, fates)
        check_killed(job, fates)


def random_deaths(chance: random.Random) -> Fates:
    return [["call", chance.randrange(6)], ["time", chance.uniform(0, 0.5)], ["shrink", chance.uniform(0, 0.2)]]


def random_fates(p: int, chance: random.Random) -> Fates:
    """Some live, and some die before anybody shrinks."""
    while True:
        fates: Fates = [chance.choice([None, None, *random_deaths(chance)]) for _ in range(p)]
        if None in fates and any(fate and fate[0] != "shrink" for fate in fates):
            return fates


@pytest.mark.soak
def test_survivors_go_on_whoever_dies_and_whenever(soak: bool) -> None:
    for number in range(100 if soak else 3):
        seed = secrets.randbits(32) if soak else number
        chance = random.Random(seed)
        p, links = chance.choice([2, 3, 4, 5, 8]), chance.choice(LINKS)
        fates = random_fates(p, chance)
        print(f"seed {seed}: {links} {json.dumps(fates)}", flush=True)
        with start(fates, links) as job:
            check_survivors(job, fates)
            check_killed(job, fates)


def wait_for_survivors(job: Job, fates: Fates, directory: Path) -> None:
    """Until all of them have gone on and computed."""
    deadline = time.monotonic() + 120
    while missing := [rank for rank in survivors_of(fates) if not (directory / str(rank)).exists()]:
        ended = [rank for rank in missing if job.ranks[rank].poll() is not None]
        assert not ended, [(rank, job.ranks[rank].communicate()) for rank in ended]
        assert time.monotonic() < deadline, f"ranks {missing} have not gone on"
        time.sleep(0.01)


@pytest.mark.parametrize(("stopped", "links"), [(0, "auto"), (0, "tcp"), (2, "staged"), (2, "tcp")])
def test_who_was_stopped_and_comes_too_late_is_told_that_the_others_went_on(
    stopped: int, links: str, tmp_path: Path
) -> None:
    fates: Fates = [["stop", 2] if rank == stopped else None for rank in range(3)]
    with start(fates, links, f"stay={tmp_path}", call=5, shrink=20) as job:
        wait_for_survivors(job, fates, tmp_path)
        late = job.ranks[stopped]
        os.kill(late.pid, signal.SIGCONT)
        out, err = late.communicate(timeout=60)
        (tmp_path / "end").touch()
        check_survivors(job, fates)
    if late.returncode != -signal.SIGKILL:  # it was stopped while it wrote into another's array, and fenced
        report = json.loads(out)
        others = ", ".join(map(str, survivors_of(fates)))
        assert report["lost"].startswith(f"ranks {others} went on without rank {stopped} "), err
        assert report["kept"] is None


@pytest.mark.parametrize(("stopped", "links"), [(0, "tcp"), (1, "auto")])
def test_one_does_not_go_on_alone_while_the_other_is_only_stopped(stopped: int, links: str) -> None:
    fates: Fates = [["stop", 2] if rank == stopped else None for rank in range(2)]
    with start(fates, links, call=1, shrink=2) as job:
        report = report_of(job.ranks[1 - stopped])
    assert f"rank {stopped} is not known to be dead" in report["lost"]


@pytest.mark.soak
def test_the_larger_part_goes_on_without_who_is_stopped_and_the_smaller_hears_of_it(tmp_path: Path, soak: bool) -> None:
    for number in range(30 if soak else 1):
        seed = secrets.randbits(32) if soak else number
        chance = random.Random(seed)
        p, links = chance.choice([3, 4, 5, 8]), chance.choice(LINKS)
        stopped = chance.sample(range(p), chance.randint(1, (p - 1) // 2))
        fates: Fates = [["stop", chance.randrange(4)] if rank in stopped else None for rank in range(p)]
        print(f"seed {seed}: {links} {json.dumps(fates)}", flush=True)
        directory = tmp_path / str(number)
        directory.mkdir()
        with start(fates, links, f"stay={directory}", call=5, shrink=20) as job:
            wait_for_survivors(job, fates, directory)
            for rank in stopped:
                os.kill(job.ranks[rank].pid, signal.SIGCONT)
            for rank in stopped:
                out, _ = job.ranks[rank].communicate(timeout=60)
                assert job.ranks[rank].returncode == -signal.SIGKILL or "went on without" in json.loads(out)["lost"]
            (directory / "end").touch()
            check_survivors(job, fates)


def test_a_communicator_that_is_fine_shrinks_to_itself_and_goes_on() -> None:
    def twice(comm: Communicator) -> list[Any]:
        with comm.shrink(deadline=20) as first, comm.shrink(deadline=20) as second, second.shrink() as third:
            total = np.arange(3) + comm.rank
            return [each.allreduce(total).tolist() for each in (comm, first, second, third)]

    with World.joined(3) as world:
        assert world.run(twice) == [[[3, 6, 9]] * 4] * 3


def test_started_calls_end_before_it_begins() -> None:
    def job(comm: Communicator) -> bool:
        handle = comm.start("allreduce", np.ones(1_000_000))
        with comm.shrink(deadline=20) as other:
            return handle.done() and other.size == 2

    with World.joined(2) as world:
        assert world.run(job) == [True, True]


def test_who_has_closed_the_communicator_is_not_waited_for() -> None:
    def job(comm: Communicator) -> int:
        if comm.rank == 1:
            comm.close()
            return 0
        with comm.shrink(deadline=60) as other:
            return int(other.allreduce(1))

    with World.joined(3) as world:
        begun = time.monotonic()
        assert world.run(job) == [2, 0, 2]
        assert time.monotonic() - begun < 30


def test_who_never_comes_is_left_behind_after_three_quarters_of_the_deadline() -> None:
    def job(comm: Communicator) -> int:
        if comm.rank == 1:
            return 0
        with comm.shrink(deadline=20) as other:
            return int(other.allreduce(1))

    with World.joined(3) as world:
        begun = time.monotonic()
        assert world.run(job) == [2, 0, 2]
        assert time.monotonic() - begun >= 15


def test_alone_there_is_nobody_to_lose() -> None:
    with unisono.init(launcher="none") as comm, comm.shrink() as other:
        assert (other.rank, other.size, other.allreduce(3)) == (0, 1, 3)


def test_a_closed_communicator_does_not_shrink() -> None:
    comm = unisono.init(launcher="none")
    comm.close()
    with pytest.raises(ConfigError, match="closed"):
        comm.shrink()


def test_too_few_ports_are_an_error_that_says_so() -> None:
    def job(comm: Communicator) -> str:
        with pytest.raises(ConfigError) as caught:
            comm.shrink()
        return str(caught.value)

    ports = some_ports(3)
    with World.joined(2, links="tcp", ports=f"{ports[0]}-{ports[-1]}") as world:
        for words in world.run(job):
            assert "UNISONO_PORTS" in words


def test_before_it_is_needed_nobody_can_come_to_the_port() -> None:
    with World.joined(2) as world:
        ports = [comm._shrink._refuge.port for comm in world.ranks]  # type: ignore[union-attr]
        listening = [
            int(line.split()[1].rpartition(":")[2], 16)
            for line in Path("/proc/net/tcp").read_text().splitlines()[1:]
            if line.split()[3] == "0A"
        ]
        assert not set(ports) & set(listening)
        with pytest.raises(PeerLost, match="only rank 0 of 2 came"):
            world.ranks[0].shrink(deadline=0.5)  # nobody else comes
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", ports[0]), timeout=5)
