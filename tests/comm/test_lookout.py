"""Ctrl-C inside a blocked call: the rank is back at once, and the others are told who was interrupted."""

import os
import re
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from tests.launcher.processes import eventually

import unisono
from unisono.comm.communicator import Communicator
from unisono.errors import DeadlineExceeded, PeerLost

MARGIN = 20.0  # for a machine that is busy with other tests, beyond the 0.1 s that are promised

pytestmark = pytest.mark.usefixtures("patient")


def stay_until(told: Path, *ranks: int) -> None:
    """Neither coming to the call nor ending, of which the others would hear, too."""
    assert eventually(lambda: all((told / str(rank)).exists() for rank in ranks))


def waits(comm: Communicator) -> bool:
    """Somebody is awaited in a call."""
    call = comm.stats()["recent"][-1]
    return call["ended"] is None and any(peer["waited"] > 0.1 for peer in call["peers"].values())


def interrupt_in_next_call(comm: Communicator, number: signal.Signals = signal.SIGINT) -> list[float]:
    """When it waits for somebody; the moment is in the list."""
    moments: list[float] = []

    def interrupt() -> None:
        assert eventually(lambda: waits(comm))
        moments.append(time.monotonic())
        os.kill(os.getpid(), number)

    signal.signal(number, signal.default_int_handler)
    threading.Thread(target=interrupt).start()
    return moments


@pytest.mark.parametrize("links", ["auto", "tcp"])
@pytest.mark.parametrize("interrupted", [0, 2])
def test_the_others_learn_who_was_interrupted_though_it_lives_on(interrupted: int, links: str, tmp_path: Path) -> None:
    def job() -> tuple[float, str]:
        comm = unisono.init(links=links)
        comm.barrier()
        words = ""
        if comm.rank == 3:
            stay_until(tmp_path, 0, 1, 2)  # who wait for it
        if comm.rank == interrupted:
            interrupt_in_next_call(comm)
            with pytest.raises(KeyboardInterrupt):
                comm.barrier()
        else:
            with pytest.raises(PeerLost) as caught:
                comm.barrier()
            words = str(caught.value)
        back = time.monotonic()
        (tmp_path / str(comm.rank)).touch()
        stay_until(tmp_path, *range(4))  # it saves its work; nobody can tell its end from a crash
        comm.close()
        return back, words

    answers = unisono.launch(job, 4, timeout=60)
    first, _ = answers[interrupted]
    for rank, (back, words) in enumerate(answers):
        if rank != interrupted:
            assert back - first < 0.1 + MARGIN
            assert re.fullmatch(rf"rank {interrupted} \(host \S+, pid \d+\) was interrupted in barrier", words)


def test_a_blocked_call_is_back_at_once(tmp_path: Path) -> None:
    def job() -> float:
        comm = unisono.init()
        comm.barrier()
        if comm.rank:
            stay_until(tmp_path, 0)
            with pytest.raises(PeerLost, match=r"rank 0 .* was interrupted in allreduce"):
                comm.allreduce(np.ones(10))
            return 0.0
        interrupted = interrupt_in_next_call(comm, signal.SIGALRM)
        with pytest.raises(KeyboardInterrupt):
            comm.allreduce(np.ones(10))
        took = time.monotonic() - interrupted[0]
        (tmp_path / "0").touch()
        return took

    assert unisono.launch(job, 2, timeout=60)[0] < 0.1 + MARGIN


def test_a_rank_that_is_in_no_call_hears_of_it_in_the_next_one_and_rank_0_passes_it_on_meanwhile(
    tmp_path: Path,
) -> None:
    def job() -> float:
        comm = unisono.init()
        comm.barrier()
        if comm.rank == 0:
            stay_until(tmp_path, 2)  # it computes
        begin = time.monotonic()
        if comm.rank == 1:
            interrupt_in_next_call(comm)
            with pytest.raises(KeyboardInterrupt):
                comm.barrier()
        else:
            with pytest.raises(PeerLost, match=r"rank 1 .* was interrupted in barrier"):
                comm.barrier()
        took = time.monotonic() - begin
        (tmp_path / str(comm.rank)).touch()
        return took

    times = unisono.launch(job, 3, timeout=60)
    assert times[0] < MARGIN
    assert times[2] < 0.4 + MARGIN


def test_waiting_for_a_handle_can_be_interrupted_and_the_process_ends(tmp_path: Path) -> None:
    def job() -> None:
        comm = unisono.init()
        comm.barrier()
        if comm.rank == 0:
            handle = comm.start("allreduce", np.ones(10))
            interrupt_in_next_call(comm)
            with pytest.raises(KeyboardInterrupt):
                handle.wait()
            with pytest.raises(PeerLost, match="was interrupted in allreduce"):
                handle.wait()
            (tmp_path / "0").touch()
        else:
            stay_until(tmp_path, 0)
            with pytest.raises(PeerLost, match=r"rank 0 .* was interrupted in allreduce"):
                comm.allreduce(np.ones(10))

    begin = time.monotonic()
    unisono.launch(job, 2, timeout=60)
    assert time.monotonic() - begin < 50  # not the 300 s that a call has


def test_a_lookout_leaves_no_thread_and_no_descriptor() -> None:
    def job() -> bool:
        unisono.init().close()  # what stays open in a process after the first time
        before = len(os.listdir("/proc/self/fd")), threading.active_count()
        unisono.init().close()
        return before == (len(os.listdir("/proc/self/fd")), threading.active_count())

    assert unisono.launch(job, 1, timeout=60) == [True]

    def pair() -> bool:
        comm = unisono.init()
        before = len(os.listdir("/proc/self/fd")), threading.active_count()
        comm.duplicate().close()
        return before == (len(os.listdir("/proc/self/fd")), threading.active_count())

    assert unisono.launch(pair, 2, timeout=60) == [True, True]


@pytest.mark.parametrize("links", ["auto", "tcp"])
def test_a_deadline_of_one_rank_is_told_to_all_others(links: str, tmp_path: Path) -> None:
    def job() -> tuple[float, str]:
        comm = unisono.init(links=links)
        comm.barrier()
        began = time.monotonic()
        if comm.rank == 3:
            os.mkdir(tmp_path / "3 is through with the barrier")
        while len(os.listdir(tmp_path)) < (4 if comm.rank == 3 else 1):  # the others wait for it
            time.sleep(0.01)
        with pytest.raises(DeadlineExceeded) as caught:
            comm.allreduce(np.ones(10), algorithm="ring", deadline=0.3 if comm.rank == 0 else 30)
        took = time.monotonic() - began
        (tmp_path / str(comm.rank)).touch()
        stay_until(tmp_path, *range(4))
        return took, str(caught.value)

    answers = unisono.launch(job, 4, timeout=60)
    assert all(took < MARGIN for took, _ in answers[:3])
    assert len({words for _, words in answers}) == 1
    assert answers[0][1].startswith("rank 0 (host ")
    assert re.search(r"has waited [\d.]+ s for .*in call 1, allreduce ring of 80 bytes", answers[0][1])
    assert re.search(r"rank 3 is at \S+test_lookout.py:\d+ in job, after call 0, barrier", answers[0][1])
