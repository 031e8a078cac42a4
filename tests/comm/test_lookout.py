"""Ctrl-C inside a blocked call: the rank is back at once, and the others are told who was interrupted."""

import os
import re
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import unisono
from unisono.errors import DeadlineExceeded, PeerLost

MARGIN = 0.9  # for a machine that is busy with other tests, beyond the 0.1 s that are promised


def interrupt_soon() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()


@pytest.mark.parametrize("links", ["auto", "tcp"])
@pytest.mark.parametrize("interrupted", [0, 2])
def test_the_others_learn_who_was_interrupted_though_it_lives_on(interrupted: int, links: str, tmp_path: Path) -> None:
    def job() -> tuple[float, str]:
        comm = unisono.init(links=links)
        comm.barrier()
        words = ""
        if comm.rank == 3:
            time.sleep(2)  # what the others wait for
        if comm.rank == interrupted:
            interrupt_soon()
            with pytest.raises(KeyboardInterrupt):
                comm.barrier()
            (tmp_path / "written").write_text(str(time.monotonic()))
            (tmp_path / "written").rename(tmp_path / "when")
            time.sleep(2)  # it saves its work; nobody can tell its end from a crash
        else:
            with pytest.raises(PeerLost) as caught:
                comm.barrier()
            words = str(caught.value)
        back = time.monotonic()
        while not (tmp_path / "when").exists():  # the others may hear of it before it is back
            time.sleep(0.01)
        took = back - float((tmp_path / "when").read_text())
        comm.close()
        return took, words

    answers = unisono.launch(job, 4, timeout=60)
    for rank, (took, words) in enumerate(answers):
        if rank != interrupted:
            assert took < (0.1 if rank != 3 else 2.0) + MARGIN
            assert re.fullmatch(rf"rank {interrupted} \(host \S+, pid \d+\) was interrupted in barrier", words)


def test_a_blocked_call_is_back_within_a_tenth_of_a_second() -> None:
    def job() -> float:
        comm = unisono.init()
        comm.barrier()
        if comm.rank:
            time.sleep(2)
            with pytest.raises(PeerLost, match=r"rank 0 .* was interrupted in allreduce"):
                comm.allreduce(np.ones(10))
            return 0.0
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        before = time.monotonic()
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with pytest.raises(KeyboardInterrupt):
            comm.allreduce(np.ones(10))
        return time.monotonic() - before - 0.3

    assert unisono.launch(job, 2, timeout=60)[0] < 0.1 + MARGIN


def test_a_rank_that_is_in_no_call_hears_of_it_in_the_next_one_and_rank_0_passes_it_on_meanwhile() -> None:
    def job() -> float:
        comm = unisono.init()
        comm.barrier()
        begin = time.monotonic()
        if comm.rank == 0:
            time.sleep(2)  # it computes
        if comm.rank == 1:
            interrupt_soon()
            with pytest.raises(KeyboardInterrupt):
                comm.barrier()
        else:
            with pytest.raises(PeerLost, match=r"rank 1 .* was interrupted in barrier"):
                comm.barrier()
        return time.monotonic() - begin

    times = unisono.launch(job, 3, timeout=60)
    assert times[0] < 3.5
    assert times[2] < 0.4 + MARGIN  # and not after the two seconds of rank 0


def test_waiting_for_a_handle_can_be_interrupted_and_the_process_ends() -> None:
    def job() -> None:
        comm = unisono.init()
        comm.barrier()
        if comm.rank == 0:
            handle = comm.start("allreduce", np.ones(10))
            interrupt_soon()
            with pytest.raises(KeyboardInterrupt):
                handle.wait()
            with pytest.raises(PeerLost, match="was interrupted in allreduce"):
                handle.wait()
        else:
            time.sleep(2)
            with pytest.raises(PeerLost, match=r"rank 0 .* was interrupted in allreduce"):
                comm.allreduce(np.ones(10))

    begin = time.monotonic()
    unisono.launch(job, 2, timeout=60)
    assert time.monotonic() - begin < 20  # not the 300 s that a call has


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
def test_a_deadline_of_one_rank_is_told_to_all_others(links: str) -> None:
    def job() -> tuple[float, str]:
        comm = unisono.init(links=links)
        comm.barrier()
        began = time.monotonic()
        if comm.rank == 3:
            time.sleep(3)  # whom the others wait for
        with pytest.raises(DeadlineExceeded) as caught:
            comm.allreduce(np.ones(10), algorithm="ring", deadline=0.3 if comm.rank == 0 else 30)
        took = time.monotonic() - began
        time.sleep(3 - min(took, 3))  # whose end would be an error, too
        return took, str(caught.value)

    answers = unisono.launch(job, 4, timeout=60)
    assert all(took < 2.5 for took, _ in answers[:3])
    assert len({words for _, words in answers}) == 1
    assert answers[0][1].startswith("rank 0 (host ")
    assert re.search(r"has waited 0\.\d+ s for .*in call 1, allreduce ring of 80 bytes", answers[0][1])
    assert re.search(r"rank 3 is at \S+test_lookout.py:\d+ in job, after call 0, barrier", answers[0][1])
