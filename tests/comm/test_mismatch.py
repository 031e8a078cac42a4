"""Ranks that make different calls are all told which, and from which lines; then the communicator is as good as new."""

import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.launcher.processes import eventually

import unisono
from unisono.comm.communicator import Communicator
from unisono.errors import DeadlineExceeded, MismatchError, PeerLost

HERE = "test_mismatch.py"

pytestmark = pytest.mark.usefixtures("patient")

DIFFERENT: dict[str, tuple[Callable[[Communicator], Any], Callable[[Communicator], Any]]] = {
    "operator": (lambda comm: comm.allreduce(np.ones(9)), lambda comm: comm.allreduce(np.ones(9), "max")),
    "type": (lambda comm: comm.allreduce(np.ones(9)), lambda comm: comm.allreduce(np.ones(9, np.int64))),
    "count": (lambda comm: comm.allreduce(np.ones(9)), lambda comm: comm.allreduce(np.ones(8))),
    "large count": (lambda comm: comm.allreduce(np.ones(900_000)), lambda comm: comm.allreduce(np.ones(900_001))),
    "root": (lambda comm: comm.broadcast(np.ones(9), 0), lambda comm: comm.broadcast(np.ones(9), 1)),
    "root that does not wait": (
        lambda comm: comm.scatter(np.ones(9) if comm.rank == 0 else None, out=np.ones(3), root=0),
        lambda comm: comm.scatter(np.ones(9), out=np.ones(3), root=comm.rank) if comm.rank else comm.barrier(),
    ),
    "algorithm": (
        lambda comm: comm.allreduce(np.ones(9), algorithm="ring"),
        lambda comm: comm.allreduce(np.ones(9), algorithm="direct"),
    ),
    "collective": (lambda comm: comm.allreduce(np.ones(9)), lambda comm: comm.barrier()),
}


def in_turn(*steps: Callable[[], Any]) -> None:
    for step in steps:
        step()


def line_of(function: Callable[..., Any]) -> str:
    return f"{HERE}:{function.__code__.co_firstlineno}"


@pytest.mark.parametrize("links", ["auto", "staged", "tcp"])
@pytest.mark.parametrize("what", DIFFERENT)
def test_both_calls_and_both_lines_are_named_on_every_rank_and_all_go_on(what: str, links: str) -> None:
    usual, other = DIFFERENT[what]

    def job() -> list[str]:
        texts = []
        with unisono.init(links=links, deadline=20) as comm:
            for odd in (1, 0, 2):
                # Who has returned raises in the next call.
                for call in (other if comm.rank == odd else usual, lambda comm: comm.barrier()):
                    try:
                        call(comm)
                    except MismatchError as error:
                        texts.append(str(error))
                        break
                assert comm.allreduce([comm.rank, 1]) == [3, 3]
                assert comm.allgather([comm.rank]) == [[0], [1], [2]]
        return texts

    answers = unisono.launch(job, 3, timeout=60)
    assert answers[0] == answers[1] == answers[2], "all raise the same"
    assert len(answers[0]) == 3
    for odd, text in zip((1, 0, 2), answers[0], strict=True):
        assert line_of(usual) in text
        assert line_of(other) in text
        assert f"on rank {odd}." in text or f"on rank {odd}, but" in text


@pytest.mark.parametrize("links", ["auto", "staged", "tcp"])
def test_who_has_returned_raises_at_the_next_call(links: str) -> None:
    def job() -> str:
        with unisono.init(links=links, deadline=20) as comm:
            x = np.ones(3 if comm.rank < 2 else 4)
            comm.barrier()
            told = r"24 bytes.*on rank 0( and rank 1)?.*32 bytes.*on rank 2"  # rank 1 may not have come there yet
            with pytest.raises(MismatchError, match=told) as caught:
                in_turn(
                    lambda: comm.broadcast(x, 0, algorithm="flat"),  # needs nobody, on rank 0, over TCP
                    lambda: time.sleep(1),
                    lambda: comm.allreduce([1]),
                )
            assert comm.allreduce([1]) == [3]
            return str(caught.value)

    assert len(set(unisono.launch(job, 3, timeout=60))) == 1


@pytest.mark.parametrize("links", ["auto", "tcp"])
def test_calls_that_were_started_fail_together_and_new_ones_work(links: str) -> None:
    def job() -> float:
        with unisono.init(links=links, deadline=20) as comm:
            count = 100_000 + (comm.rank == 2)
            handles = [comm.start("allreduce", np.ones(count)) for _ in range(4)]
            for handle in handles:
                with pytest.raises(MismatchError, match="different calls"):
                    handle.wait()
            handles = [comm.start("allreduce", np.ones(1000)) for _ in range(4)]
            return float(sum(handle.wait()[7] for handle in handles))

    assert unisono.launch(job, 3, timeout=60) == [12.0] * 3


@pytest.mark.parametrize("links", ["auto", "tcp"])
def test_a_pair_that_differs_is_told_and_all_go_on(links: str) -> None:
    def job() -> list[int]:
        with unisono.init(links=links, deadline=20) as comm:
            pairwise: list[Callable[[], Any]] = [
                lambda: comm.send(np.ones(3), 1),
                lambda: comm.recv(0, out=np.ones(4)),
                lambda: None,
            ]
            with pytest.raises(MismatchError, match="bytes"):
                in_turn(pairwise[comm.rank], comm.barrier)
            out = np.zeros(1, np.int64)
            if comm.rank == 0:
                comm.send(np.array([42]), 1)
            elif comm.rank == 1:
                comm.recv(0, out=out)
                assert out[0] == 42
            return list(comm.allreduce([1]))

    assert unisono.launch(job, 3, timeout=60) == [[3]] * 3


@pytest.mark.parametrize("links", ["auto", "tcp"])
def test_strict_ranks_compare_before_anything_is_written(links: str) -> None:
    def job() -> list[float]:
        with unisono.init(links=links, check="strict", deadline=20) as comm:
            x = np.full(5 if comm.rank else 6, float(comm.rank))
            before = x.copy()
            with pytest.raises(MismatchError, match=r"48 bytes.* on rank 0, but .*40 bytes.* on rank 1"):
                comm.broadcast(x, 0, algorithm="flat")  # the root of which would have been through
            assert (x == before).all()
            with pytest.raises(MismatchError, match="different calls"):
                comm.start("allreduce", x).wait()
            handles = [comm.start("allreduce", np.ones(4)) for _ in range(3)]
            return [*comm.allreduce([1.0, 2.0]), *(float(handle.wait()[0]) for handle in handles)]

    assert unisono.launch(job, 2, timeout=60) == [[2.0, 4.0, 2.0, 2.0, 2.0]] * 2


def test_a_rank_that_makes_fewer_calls_is_named_with_its_last_one() -> None:
    def job() -> str:
        comm = unisono.init(deadline=20)
        comm.allreduce([1])
        if comm.rank == 1:
            return ""  # and so it ends
        with pytest.raises(PeerLost) as caught:
            comm.barrier()
        return str(caught.value)

    zero, _, two = unisono.launch(job, 3, timeout=60)
    assert zero == two
    assert re.search(rf"lost rank 1 \(host .*has closed its communicator after call 0, allreduce .*{HERE}", zero)


def test_a_report_that_rank_0_did_not_read_before_it_left_is_judged_without_it() -> None:
    def job() -> str:
        with unisono.init(deadline=60) as comm:
            comm.barrier()
            if comm.rank == 0:
                unread = threading.Event()
                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr("unisono.comm.desk.Desk.hear", lambda desk, report: unread.set())
                    comm.broadcast(np.ones(9))  # its root waits for nobody
                    assert unread.wait(60)
                    return ""
            with pytest.raises(MismatchError) as caught:
                comm.allreduce(np.ones(9))
            return str(caught.value)

    text = unisono.launch(job, 2, timeout=90)[1]
    assert re.match(r"The ranks make different calls: call 1 is broadcast .* on rank 0, but allreduce .* rank 1", text)


def test_ranks_wait_for_each_other_before_they_begin_again_and_say_for_whom(tmp_path: Path) -> None:
    def job() -> float:
        with unisono.init(deadline=20) as comm:
            with pytest.raises(MismatchError):
                comm.allreduce(np.ones(3 + comm.rank))
            if comm.rank == 1:
                assert eventually(lambda: len(list(tmp_path.iterdir())) == 2)
            else:
                told = (
                    r"for .*rank 1 .* to make a call again, after all ranks were"  # the third may not be there, either
                )
                with pytest.raises(DeadlineExceeded, match=told):
                    comm.barrier(deadline=0.3)
                (tmp_path / str(comm.rank)).touch()
            return float(comm.allreduce([1.5])[0])

    assert unisono.launch(job, 3, timeout=60) == [4.5] * 3
