"""However a rank ends, in whatever it is: no crash, no hang, and nothing of the job is left."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.comm.processes import shared_memory
from tests.launcher.processes import eventually, processes_with, start, token

SECONDS = 120
CRASHES = re.compile(r"Segmentation|Aborted|Fatal|terminate called|SIGSEGV|SIGABRT|leaked|Exception ignored")

PREAMBLE = """
import gc, os, pathlib, signal, sys, threading, time
import numpy as np
import unisono
from unisono.errors import PeerLost

rank, here = int(os.environ["UNISONO_RANK"]), pathlib.Path(sys.argv[1])
print(os.environ["UNISONO_RENDEZVOUS"], os.environ["UNISONO_JOB"], flush=True)
comm = unisono.init()
comm.barrier()
x = np.ones(100_000)

def under_way(comm):
    recent = comm.stats()["recent"]
    return bool(recent) and recent[-1]["ended"] is None

def wait_until(condition):
    end = time.monotonic() + 50
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)

def in_a_thread(function, daemon):
    def call():
        try: function()
        except PeerLost: pass  # the other one has ended before this one does

    threading.Thread(target=call, daemon=daemon).start()
    wait_until(lambda: under_way(comm))
    (here / f"calls-{rank}").touch()
    wait_until(lambda: len(list(here.glob("calls-*"))) == 2)

def others_have_ended():
    wait_until(lambda: len(list(here.glob("ended-*"))) == 2)
"""


class End(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture(params=["auto", "tcp"])
def job(request, tmp_path: Path, monkeypatch):
    """Runs ranks to their end, and looks for what they left."""
    monkeypatch.setenv("UNISONO_LINKS", request.param)
    monkeypatch.setenv("PYTHONWARNINGS", "error")
    before, mark = shared_memory(), token()

    def run(
        text: str, meanwhile: Callable[[subprocess.Popen[str]], None] = lambda launcher: None, grace: float = 30
    ) -> End:
        script = tmp_path / "script.py"
        script.write_text(PREAMBLE + text)
        with start("-n", 3, "--grace", grace, script, tmp_path, mark) as launcher:
            try:
                meanwhile(launcher)
                out, err = launcher.communicate(timeout=SECONDS)
            finally:
                launcher.kill()
        assert not CRASHES.search(err), err
        return End(launcher.returncode, out, err)

    run.here = tmp_path  # type: ignore[attr-defined]
    yield run
    assert processes_with(mark) == []
    assert shared_memory() <= before


def nothing_listens(out: str) -> bool:
    """Under a name that the job has. Its port may be another test's by now; no process of the job holds it any more."""
    (_, name), *_ = re.findall(r"\[\d\] (\S+:\d+) (\S+)\n", out)
    return f"unisono-{name}" not in Path("/proc/net/unix").read_text()


# ---- exits in the middle of calls. Rank 2 does not come to them, and ends when the others have.

EXITS = {
    "unfinished handles": "handles = [comm.start('allreduce', x) for _ in range(3)]",
    "unfinished handles that nobody has": "comm.start('allreduce', x); comm.start('allgatherv', x)",
    "a forgotten communicator": "comm.start('allreduce', x); del comm; gc.collect()",
    "a daemon thread in a call": "in_a_thread(lambda: comm.allreduce(x), daemon=True)",
    "a daemon thread that waits for a handle": "in_a_thread(comm.start('allreduce', x).wait, daemon=True)",
}


@pytest.mark.parametrize("what", EXITS)
def test_who_exits_with_calls_under_way_ends_well(job, what: str) -> None:
    text = f"if rank == 2: others_have_ended()\nelse:\n    {EXITS[what]}\n    (here / f'ended-{{rank}}').touch()\n"
    end = job(text + "sys.exit(0)")
    assert (end.code, end.err) == (0, "")
    assert nothing_listens(end.out)


def test_nested_communicators_end_with_their_rank(job) -> None:
    text = """
row, twin = comm.split(rank // 2), comm.duplicate()
again = row.split(0)
handles = [each.start("allreduce", x) for each in (row, again)]
if rank == 2: others_have_ended()
else: handles.append(twin.start("allreduce", x))
(here / f"ended-{rank}").touch()
sys.exit(4 if rank == 1 else 0)
"""
    end = job(text)
    assert end.code == 4
    assert nothing_listens(end.out)


@pytest.mark.parametrize("daemon", [True, False])
def test_a_thread_that_calls_again_and_again_is_no_obstacle(job, daemon: bool) -> None:
    """Its calls fail when the interpreter ends, or when the others have gone."""
    text = f"""
def call():
    while {daemon}:
        try: comm.allreduce(x)
        except PeerLost: pass
    try:
        while True: comm.allreduce(x)
    except PeerLost: pass

if rank == 2: others_have_ended()
else:
    in_a_thread(call, daemon={daemon})
    (here / f"ended-{{rank}}").touch()
"""
    end = job(text)
    assert (end.code, end.err) == (0, "")


# ---- one rank ends in the middle of a call of the others, which hear of it

ENDINGS = {
    "exception": ("raise ValueError('mine')", 1, "ValueError: mine"),
    "sys.exit": ("twin.start('allreduce', x); sys.exit(4)", 4, "rank 1 (pid"),
    "os._exit": ("os._exit(5)", 5, "rank 1 (pid"),
    "SIGTERM": ("os.kill(os.getpid(), signal.SIGTERM)", 143, "was killed by SIGTERM"),
    "SIGHUP": ("os.kill(os.getpid(), signal.SIGHUP)", 129, "was killed by SIGHUP"),
    "SIGKILL": ("os.kill(os.getpid(), signal.SIGKILL)", 137, "was killed by SIGKILL"),
    "exception in a part": ("part.start('allreduce', x); raise ValueError('mine')", 1, "ValueError: mine"),
}


@pytest.mark.parametrize("how", ENDINGS)
def test_the_end_of_a_rank_is_the_end_of_the_job(job, how: str) -> None:
    ending, code, words = ENDINGS[how]
    text = f"""
twin, part = comm.duplicate(), comm.split(0)
if rank == 1:
    wait_until(lambda: len(list(here.glob("in-*"))) == 2)
    {ending}
(here / f"in-{{rank}}").touch()
try:
    comm.allreduce(x)
except PeerLost as error:
    print("lost:", error, flush=True)
    raise
"""
    end = job(text)
    assert end.code == code
    assert words in end.err
    for rank in (0, 2):
        assert re.search(rf"\[{rank}\] lost: .*rank 1\b", end.out)
    assert nothing_listens(end.out)


# ---- signals from outside, while all ranks are in a call, in one of a thread, or in one that was started

BUSY = """
twin, third = comm.duplicate(), comm.duplicate()
third.start("allreduce", x) if rank != 2 else None
threading.Thread(target=lambda: twin.allreduce(x), daemon=True).start() if rank != 2 else None
(here / f"pid-{rank}-{os.getpid()}").touch()
if rank == 2: time.sleep(100)
comm.allreduce(x)
"""


def pids(here: Path) -> dict[int, int]:
    return {int(path.name[4]): int(path.name[6:]) for path in here.glob("pid-*")}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("to", ["launcher", "rank"])
def test_a_signal_in_the_middle_of_calls_leaves_nothing(job, to: str, number: signal.Signals) -> None:
    def interrupt(launcher: subprocess.Popen[str]) -> None:
        assert eventually(lambda: len(pids(job.here)) == 3, SECONDS)
        time.sleep(0.3)  # into the call; earlier is right as well
        os.kill(pids(job.here)[0] if to == "rank" else launcher.pid, number)

    end = job(BUSY, interrupt, grace=6)  # rank 2, which sleeps, is ended after it
    assert end.code == 128 + number
    assert nothing_listens(end.out)
