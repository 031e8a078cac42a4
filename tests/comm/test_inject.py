"""Failures that were asked for: they happen where they should, and every other rank says whom it has lost."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from tests.comm import world
from tests.comm.world import World
from tests.launcher.processes import eventually

import unisono
from unisono.comm.communicator import Communicator
from unisono.errors import ConfigError, PeerLost, UnisonoError
from unisono.injection import Action

VARIABLES = {"direct": "auto", "staged": "staged", "tcp": "tcp"}
LINKS = list(VARIABLES)
VICTIM = 1
FIRST = 1  # the call in which it happens; call 0 is a barrier
CALLS = 20  # more than enough to notice it

Call = Callable[[Communicator, str], object]
CALLS_OF: dict[str, Call] = {
    "allreduce": lambda comm, algorithm: comm.allreduce(np.ones(10_000), algorithm=algorithm),
    "broadcast": lambda comm, algorithm: comm.broadcast(np.ones(10_000), algorithm=algorithm),
    "alltoall": lambda comm, algorithm: comm.alltoall(np.ones((comm.size, 1000)), algorithm=algorithm),
}


class Rehearsal:
    """A job in which one rank is hurt. Each rank notes how its calls ended."""

    def __init__(self, directory: Path, size: int, links: str, collective: str, algorithm: str, deadline: float = 20):
        self.directory, self.size, self.links = directory, size, VARIABLES[links]
        self.collective, self.algorithm, self.deadline = collective, algorithm, deadline

    def __call__(self) -> None:
        with unisono.init(links=self.links) as comm:
            comm.barrier()
            self.note("pid", comm.rank, str(os.getpid()))
            assert eventually(lambda: len(list(self.directory.glob("pid-?"))) == self.size)  # all are through with it
            comm.deadline = self.deadline
            try:
                for _ in range(CALLS):
                    CALLS_OF[self.collective](comm, self.algorithm)
                comm.barrier()
                self.note("end", comm.rank, "done")
            except UnisonoError as error:
                self.note("end", comm.rank, f"{type(error).__name__}: {error}")
            self.continue_who_was_stopped(comm.rank)

    def continue_who_was_stopped(self, rank: int) -> None:
        """When all others have noted their ends."""
        until = time.monotonic() + 60
        while rank != VICTIM and len(self.ends()) < self.size - 1 and time.monotonic() < until:
            time.sleep(0.01)
        if rank != VICTIM:
            with suppress(ProcessLookupError):
                os.kill(int((self.directory / f"pid-{VICTIM}").read_text()), signal.SIGCONT)

    def note(self, what: str, rank: int, text: str) -> None:
        (self.directory / f"{what}-{rank}.new").write_text(text)
        (self.directory / f"{what}-{rank}.new").rename(self.directory / f"{what}-{rank}")

    def ends(self) -> dict[int, str]:
        files = [path for path in self.directory.glob("end-*") if not path.suffix]
        return {int(path.name.removeprefix("end-")): path.read_text() for path in files}

    def survivors(self) -> dict[int, str]:
        return {rank: text for rank, text in self.ends().items() if rank != VICTIM}

    def run(self) -> None:
        unisono.launch(lambda: self(), self.size, timeout=90)  # forks, which have imported everything


DROPPED = "it broke its links, because UNISONO_INJECT asks for it"
SEEN = rf"rank 1 \(.*\)( is lost: {DROPPED}|: \S+ .*closed by the peer|: closed by the peer)"
"""Whoever is first: the rank itself, or one that finds the links broken."""


def last_round(collective: str, algorithm: str, size: int) -> int:
    return unisono.find(collective, algorithm).schedule(size).table.rounds


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("links", LINKS)
@pytest.mark.parametrize(
    ("collective", "algorithm", "round_"),
    [
        ("allreduce", "ring", 1),
        ("allreduce", "ring", 4),
        ("allreduce", "mst", 99),
        ("allreduce", "direct", 2),
        ("broadcast", "mst", 2),
        ("alltoall", "pairwise", 3),
    ],
)
def test_a_rank_kills_itself_and_all_others_lose_it(
    collective: str,
    algorithm: str,
    round_: int,
    links: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("UNISONO_INJECT", f"kill rank={VICTIM} call={FIRST} round={round_}")
    job = Rehearsal(tmp_path, 4, links, collective, algorithm)
    with pytest.raises(PeerLost, match=rf"rank {VICTIM}\b.*SIGKILL"):
        job.run()
    assert sorted(job.survivors()) == [0, 2, 3]
    for text in job.survivors().values():
        assert text.startswith("PeerLost: ")
        assert f"rank {VICTIM}" in text
    assert VICTIM not in job.ends()
    said = [line for line in capfd.readouterr().err.splitlines() if "unisono: injected" in line]
    assert len(said) == 1
    where = f"round {round_}" if round_ <= last_round(collective, algorithm, 4) else "at its end"
    assert said[0].endswith(f"unisono: injected kill in rank {VICTIM}, call {FIRST}, {where}")


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("links", LINKS)
@pytest.mark.parametrize(("algorithm", "round_"), [("ring", 3), ("direct", 2), ("mst", 99)])
def test_a_rank_breaks_its_links_and_says_so_and_all_others_lose_it(
    algorithm: str, round_: int, links: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNISONO_INJECT", f"drop rank={VICTIM} call={FIRST} round={round_}")
    job = Rehearsal(tmp_path, 4, links, "allreduce", algorithm)
    job.run()
    assert sorted(job.survivors()) == [0, 2, 3]
    for text in job.survivors().values():
        assert text.startswith("PeerLost: ")
        assert f"rank {VICTIM}" in text
    own = job.ends()[VICTIM]
    assert set(job.survivors().values()) == {own}, "all raise what the first has seen"
    assert re.search(rf"{SEEN}\. Rank \d was in call \d, allreduce {algorithm} .*, in round \d of \d", own)


@pytest.mark.parametrize("links", LINKS)
@pytest.mark.parametrize(
    ("action", "size", "algorithm", "round_"),
    [("stall", 2, "ring", 2), ("stall", 3, "direct", 1), ("delay", 2, "mst", 1)],
)
def test_others_do_not_wait_longer_than_their_deadline_for_a_rank_that_stands_still(
    action: str, size: int, algorithm: str, round_: int, links: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stalled rank is continued in the end, a delayed one wakes up by itself; both find that they are alone."""
    pause = " seconds=10" if action == "delay" else ""
    monkeypatch.setenv("UNISONO_INJECT", f"{action} rank={VICTIM} call={FIRST} round={round_}{pause}")
    job = Rehearsal(tmp_path, size, links, "allreduce", algorithm, deadline=4.0)
    job.run()
    assert len(job.survivors()) == size - 1
    for text in job.survivors().values():
        assert text.startswith("DeadlineExceeded: ")
        assert f"for rank {VICTIM}" in text
    assert job.ends()[VICTIM].startswith(("DeadlineExceeded: ", "PeerLost: "))


@pytest.mark.parametrize("links", LINKS)
@pytest.mark.parametrize("action", ["delay", "stall"])
def test_a_delay_that_is_shorter_than_the_deadline_changes_no_result(action: str, links: str) -> None:
    pause = 0.3

    def job() -> tuple[float, float]:
        inject = f"{action} rank=2 call=1 round=3 seconds={pause}; {action} rank=2 call=1 round=99 seconds={pause}"
        with unisono.init(links=VARIABLES[links], inject=inject) as comm:
            comm.barrier()
            began = time.monotonic()
            total = comm.allreduce(np.full(10_000, comm.rank + 1.0), algorithm="ring")
            return float(total.min()), time.monotonic() - began

    results = unisono.launch(job, 3, timeout=60)
    assert [total for total, _ in results] == [6.0] * 3
    assert results[2][1] >= 2 * pause


@pytest.mark.parametrize("links", LINKS)
def test_calls_that_were_started_are_hurt_like_others(links: str) -> None:
    def job() -> str:
        with unisono.init(links=VARIABLES[links], inject="drop rank=1 call=2 round=2", deadline=20) as comm:
            handles = [comm.start("allreduce", np.ones(10_000), algorithm="ring") for _ in range(4)]
            assert [handle.wait().sum() for handle in handles[:2]] == [20_000.0] * 2
            with pytest.raises(PeerLost, match="rank 1") as caught:
                handles[2].wait()
            return str(caught.value)

    error = unisono.launch(job, 2, timeout=60)[1]
    assert re.search(rf"{SEEN}\. Rank \d was in call 2, allreduce ring of 80,000 bytes", error)


def repeat_barrier(comm: Communicator, times: int) -> None:
    for _ in range(times):
        comm.barrier()


@pytest.mark.parametrize("links", ["auto", "tcp"])
def test_only_calls_of_all_ranks_count_and_only_those_of_the_first_communicator(links: str) -> None:
    with World.joined(2, links, inject="drop rank=1 call=4") as ranks:

        def job(comm: Communicator) -> str:
            with comm.duplicate() as twin:
                repeat_barrier(twin, 8)
            comm.sendrecv([1.0], 1 - comm.rank, 1 - comm.rank)
            with pytest.raises(PeerLost, match="rank 1") as caught:
                repeat_barrier(comm, 8)
            recent = [call for call in comm.stats()["recent"] if call["sequence"] is not None]
            assert recent[-1]["sequence"] in (3, 4)  # the exchange of two has none; it may hear of it before
            return str(caught.value)

        assert re.search(rf"{SEEN}\. Rank \d was in call 4, barrier", ranks.run(job)[1])


@pytest.mark.parametrize("links", world.LINKS)
def test_every_kind_of_link_can_be_broken(links: str) -> None:
    with World(2, links) as ranks:
        ranks.ranks[1]._runner.executor.inject([(Action.DROP, 1, 1, 0.0)])

        def job(comm: Communicator) -> str:
            x = np.full(5000, comm.rank + 1.0)
            np.testing.assert_array_equal(comm.allreduce(x, algorithm="ring"), 3.0)
            with pytest.raises(PeerLost, match="rank 1") as caught:
                comm.allreduce(x, algorithm="ring")
            return str(caught.value)

        assert ranks.run(job)[1] == f"rank 1 in call 1, round 2: {DROPPED}"


def test_a_rank_that_is_alone_can_be_hurt_too() -> None:
    with unisono.init(rank=0, size=1, inject="drop rank=0 call=1") as comm:
        comm.barrier()
        with pytest.raises(PeerLost, match=rf"rank 0 in call 1, .*: {DROPPED}"):
            comm.barrier()


def test_an_injection_makes_no_error_where_nothing_is_injected() -> None:
    with World.joined(2, inject="kill rank=1 call=1000; drop rank=0 call=1000 round=3") as ranks:
        for _ in range(3):
            assert ranks.run(lambda comm: comm.allreduce([1.0])) == [[2.0], [2.0]]


def test_a_job_that_has_no_such_rank_is_not_started() -> None:
    with pytest.raises(ConfigError, match="rank='2': valid is a whole number from 0 to 0"):
        unisono.init(rank=0, size=1, inject="kill rank=2")


def test_the_failures_of_one_call_happen_in_the_order_of_their_rounds(capfd: pytest.CaptureFixture[str]) -> None:
    def job() -> None:
        text = "delay rank=0 round=4 seconds=0.01; delay rank=0 round=2 seconds=0.01; delay rank=0 seconds=0.01"
        with unisono.init(links="tcp", inject=text) as comm:
            comm.allreduce(np.ones(1000), algorithm="ring")

    unisono.launch(job, 3, timeout=60)
    said = [line.rpartition(", ")[2] for line in capfd.readouterr().err.splitlines() if "unisono: injected" in line]
    assert said == ["round 1", "round 2", "round 4"]
