"""The traces that the ranks of a job write."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from tests.trace.traces import call_events, calls, events_of, leave_together, merge, merged, wait_until, waits

import unisono
from unisono.errors import ConfigError, PeerLost

SCRIPT = """
import sys, threading
from pathlib import Path
import numpy as np
import unisono
from tests.trace.traces import leave_together, tell_that_it_waits, wait_until

with unisono.init() as comm:
    late = Path(sys.argv[1] + "-late")
    for _ in range(3):
        comm.allreduce(np.ones(1000, np.float32), algorithm="ring")
    if comm.rank == 2:
        wait_until(lambda: len(list(late.glob("*"))) == 2)
    else:
        threading.Thread(target=tell_that_it_waits, args=(comm, 2, late)).start()
    comm.allreduce(np.ones(10), algorithm="direct")
leave_together(Path(sys.argv[1]))
"""


def shows_a_call_under_way(trace: Path) -> bool:
    return trace.exists() and '"ph":"B"' in trace.read_text()


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The trace of SCRIPT on three ranks."""
    folder = tmp_path_factory.mktemp("traced")
    (folder / "script.py").write_text(SCRIPT)
    command = ["-c", "from unisono.cli.main import main; main()", "run", "-n", "3", str(folder / "script.py")]
    environment = {**os.environ, "UNISONO_TRACE": str(folder / "trace"), "PYTHONPATH": os.getcwd()}
    run = subprocess.run(
        [sys.executable, *command, str(folder / "left")], env=environment, capture_output=True, text=True, timeout=120
    )
    assert run.returncode == 0, run.stderr
    assert run.stderr == ""
    return folder / "trace"


def test_every_rank_writes_all_its_calls(traced: Path) -> None:
    assert sorted(path.name for path in traced.iterdir() if path.name.startswith((".", "rank"))) == [
        f"rank-{rank}.json" for rank in range(3)
    ]
    for rank in range(3):
        events = events_of(traced, rank)
        names = {event["name"]: event["args"] for event in events if event["ph"] == "M"}
        assert names["process_name"]["name"].startswith(f"rank {rank} (")
        assert names["thread_name"]["name"] == f"world (rank {rank} of 3)"
        found = calls(events)
        assert [call["name"] for call in found] == ["allreduce ring"] * 3 + ["allreduce direct"]
        assert [call["args"]["sequence"] for call in found] == [0, 1, 2, 3]
        assert found[0]["args"]["bytes"] == 4000
        assert found[0]["args"]["dtype"] == "float32"
        assert found[0]["args"]["where"].endswith("script.py:11")


def test_merged_calls_of_all_ranks_overlap(traced: Path) -> None:
    events, text = merged(traced)
    assert text.startswith("3 ranks on 1 host, 4 calls in ")
    for sequence in range(4):
        parts = [call for call in calls(events) if call["args"]["sequence"] == sequence]
        assert {call["pid"] for call in parts} == {0, 1, 2}
        assert max(call["ts"] for call in parts) < min(call["ts"] + call["dur"] for call in parts)
    times = [event["ts"] for event in events if event["ph"] != "M"]
    assert times == sorted(times)
    assert times[0] == 0


def test_a_late_rank_is_what_the_others_wait_for(traced: Path) -> None:
    events, text = merged(traced)
    for rank in (0, 1):
        longest = max(waits(events, rank), key=lambda wait: wait["dur"])
        assert longest["name"] == "waits for rank 2"
        assert 0.2e6 < longest["dur"] < 60e6
        call = calls(events, rank)[-1]
        assert call["ts"] <= longest["ts"] <= longest["ts"] + longest["dur"] <= call["ts"] + call["dur"] + 0.01
        assert 0.2e6 < call["args"]["arrived_us"]["2"] < 60e6
    assert "awaited most: rank 2" in text
    assert "slowest: allreduce direct #3 of 80 B" in text
    assert "rank 2 came last" in text


def test_no_call_is_lost_however_fast_they_are(tmp_path: Path) -> None:
    with unisono.init(rank=0, size=1, trace=str(tmp_path)) as comm:
        for _ in range(2000):
            comm.barrier()
    assert [call["args"]["sequence"] for call in calls(events_of(tmp_path, 0))] == list(range(2000))


def test_calls_of_two_ranks_and_of_smaller_communicators_are_in_it(tmp_path: Path) -> None:
    def job() -> None:
        with unisono.init(trace=str(tmp_path)) as comm:
            row = comm.split(comm.rank % 2, key=-comm.rank)
            assert row is not None
            with row:
                row.allreduce([1])
                if comm.rank < 2:
                    row.recv(0, out=np.zeros(2))
                else:
                    row.send(np.ones(2), 1)
            comm.barrier()
        leave_together(tmp_path / "left")

    unisono.launch(job, 4, timeout=60)
    events, _ = merged(tmp_path)
    for rank in range(4):
        tracks = {
            event["tid"]: event["args"]
            for event in events
            if event["pid"] == rank and event["name"] == "unisono communicator"
        }
        part = next(track for track, facts in tracks.items() if facts["identity"] != "world")
        assert tracks[part]["ranks"] == ([2, 0] if rank % 2 == 0 else [3, 1])
        allreduce, message = [call for call in calls(events, rank) if call["tid"] == part]
        assert allreduce["args"]["peers"] == [(rank + 2) % 4]  # ranks of the job, not of the communicator
        assert message["name"] == ("recv" if rank < 2 else "send")
        assert calls(events, rank)[-1]["name"].startswith("barrier")


def test_a_killed_rank_leaves_what_it_did_and_what_it_was_in(tmp_path: Path) -> None:
    mine = tmp_path / "rank-1.json"
    process = tmp_path / "process"

    def kill_when_written() -> None:
        wait_until(lambda: shows_a_call_under_way(mine))
        process.write_text(str(os.getpid()))
        os.kill(os.getpid(), signal.SIGKILL)

    def is_dead() -> bool:
        if not process.exists() or not process.read_text():
            return False
        status = Path("/proc") / process.read_text() / "stat"
        return not status.exists() or ") Z " in status.read_text()

    def job() -> None:
        comm = unisono.init(trace=str(tmp_path))
        comm.barrier()
        if comm.rank == 1:
            threading.Thread(target=kill_when_written).start()
        else:
            wait_until(is_dead)
        comm.allreduce(np.ones(10))  # rank 1 has sent its part, so rank 0 gets through
        comm.barrier()

    with pytest.raises(PeerLost):
        unisono.launch(job, 2, timeout=60)
    assert not mine.read_text().endswith("]\n")
    events, text = merged(tmp_path)
    assert [call["ph"] for call in calls(events, 1)] == ["X", "B"]
    assert calls(events, 1)[1]["args"]["absent"] == [0]
    survivor = calls(events, 0)[-1]
    assert (survivor["ph"], survivor["args"]["outcome"]) == ("X", "failed")
    assert "rank 1 did not finish allreduce" in text


def test_a_long_call_that_ends_is_one_event(tmp_path: Path) -> None:
    def job() -> None:
        with unisono.init(trace=str(tmp_path)) as comm:
            if comm.rank == 0:
                wait_until(lambda: shows_a_call_under_way(tmp_path / "rank-1.json"))
            comm.allreduce(np.ones(10))
        leave_together(tmp_path / "left")

    unisono.launch(job, 2, timeout=60)
    events, text = merged(tmp_path)
    begin, end = call_events(events, 1)
    assert (begin["ph"], end["ph"]) == ("B", "E")
    (wait,) = waits(events, 1)
    assert begin["ts"] <= wait["ts"] < wait["ts"] + wait["dur"] <= end["ts"] + 0.01
    assert ", 1 call in" in text
    assert "did not finish" not in text


def test_a_program_that_closes_nothing_leaves_a_complete_trace(tmp_path: Path) -> None:
    def job() -> None:
        unisono.init(trace=str(tmp_path)).barrier()
        leave_together(tmp_path / "left")

    unisono.launch(job, 2, timeout=60)
    assert [len(calls(events_of(tmp_path, rank))) for rank in range(2)] == [1, 1]


def test_where_some_ranks_write_none_the_others_are_merged_on_demand(tmp_path: Path) -> None:
    def job() -> None:
        trace = str(tmp_path) if os.environ["UNISONO_RANK"] == "1" else None
        with unisono.init(trace=trace) as comm:
            comm.barrier()
        leave_together(tmp_path / "left")

    unisono.launch(job, 3, timeout=60)
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["rank-1.json"]
    run = merge(tmp_path)
    assert run.returncode == 2
    assert "has the traces of 1 of 3 ranks, but not of 0, 2;" in run.stderr
    events, text = merged(tmp_path, "--partial")
    assert text.startswith("1 rank of 3 on 1 host, 1 call in ")
    assert len(calls(events)) == 1


def test_a_copy_of_the_process_does_not_write(tmp_path: Path) -> None:
    def job() -> None:
        comm = unisono.init(trace=str(tmp_path))
        comm.barrier()
        child = os.fork()
        if child == 0:
            with pytest.raises(ConfigError, match="this process was forked from rank 0"):
                comm.barrier()
            comm.close()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        comm.close()

    unisono.launch(job, 1, timeout=60)
    assert len(calls(events_of(tmp_path, 0))) == 1


def test_a_trace_takes_the_place_of_that_of_an_earlier_run_when_the_ranks_have_met(tmp_path: Path) -> None:
    path = tmp_path / "rank-0.json"
    path.write_text("of an earlier run")
    with pytest.raises(ConfigError):
        unisono.init(rank=0, size=2, rendezvous="256.0.0.1:1", trace=str(tmp_path))
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
    assert path.read_text() == "of an earlier run"
    unisono.init(rank=0, size=1, trace=str(tmp_path)).close()
    assert len(events_of(tmp_path, 0)) > 0


def test_a_directory_that_cannot_be_written_is_an_error_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"UNISONO_TRACE=.*rank 0 cannot write .*rank-0.json: "):
        unisono.init(rank=0, size=1, trace=str(tmp_path / "file"))


def test_a_full_disk_ends_the_trace_and_not_the_program(tmp_path: Path) -> None:
    (tmp_path / f".rank-0.json.{os.getpid()}").symlink_to("/dev/full")
    with pytest.warns(RuntimeWarning, match="ends here: No space left"):
        comm = unisono.init(rank=0, size=1, trace=str(tmp_path))
    assert comm.allreduce([1]) == [1]
    comm.close()


def test_the_thread_that_writes_ends_with_the_communicator(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    comm = unisono.init(rank=0, size=1, trace=str(tmp_path))
    assert len(set(threading.enumerate()) - before) == 1
    start = time.monotonic()
    comm.close()
    assert set(threading.enumerate()) <= before
    assert time.monotonic() - start < 20
