"""Dumps by hand and at random, and the command that reads them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from tests.launcher.processes import run
from tests.trace.traces import command

from unisono.trace.dump import FORMAT, WORLD, Dump, Failure
from unisono.trace.record import Kind, Peer, Record
from unisono.trace.stacks import Frame, Thread

SECOND = 10**9


def names(size: int) -> list[str]:
    return [f"rank {rank} (host a, pid {1000 + rank})" for rank in range(size)]


def peer(rank: int, *, waited: float = 0.0, arrived: bool = True, expected: bool = True) -> Peer:
    return Peer(rank, expected, SECOND if arrived else None, int(waited * SECOND), 0, int(waited * SECOND))


def call(sequence: int | None, *peers: Peer, outcome: str = "done", kind: Kind | None = None, **facts: Any) -> Record:
    given = {"number": sequence or 0, "bytes": 4 << 20, "where": "/home/me/train.py:42", "began": SECOND} | facts
    ended = None if outcome == "running" else 2 * SECOND
    what = kind or Kind("allreduce", "ring", "float32", "sum")
    return Record(sequence=sequence, kind=what, ended=ended, failed=outcome == "failed", peers=list(peers), **given)


def dump(rank: int, size: int, error: str, message: str, *calls: Record, at: str = "", **facts: Any) -> Dump:
    file, _, line = (at or "train.py:42").rpartition(":")
    plain = Dump(
        format=FORMAT,
        run="run",
        job="job",
        rank=rank,
        size=size,
        host="a",
        pid=1000 + rank,
        names=names(size),
        communicator=WORLD,
        ranks=list(range(size)),
        clock=1e9 + rank,
        monotonic=SECOND,
        failure=Failure(error, message, "", None),
        calls=list(calls),
        threads=[Thread("MainThread", True, [Frame(file, int(line), "work", True)])],
        links="auto",
        sharing="direct",
        deadline=300.0,
    )
    return plain._replace(**facts)


def diagnose(directory: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return command("diagnose", str(directory), *options)


def words(directory: Path, *options: str) -> str:
    """What the command says."""
    done = diagnose(directory, *options)
    assert done.returncode == 0, done.stderr
    return done.stdout


TOGETHER = """
import os, pathlib, time
import unisono.comm.desk, unisono.comm.lookout

# A busy machine keeps ranks from answering for longer than they are waited for.
unisono.comm.desk.SECONDS_TO_ANSWER, unisono.comm.lookout.PATIENCE_FOR_A_VERDICT = 10, 30

def wait_for_all(comm, turn):
    here, job = pathlib.Path(__file__).parent, os.environ["UNISONO_JOB"]
    (here / f"{job}-{turn}-{comm.rank}").touch()
    while len(list(here.glob(f"{job}-{turn}-*"))) < comm.size: time.sleep(0.01)
"""


def write_script(directory: Path, code: str) -> Path:
    """With what it may import: who dies does so when the others are through with the call before."""
    (directory / "together.py").write_text(TOGETHER)
    (directory / "train.py").write_text(code)
    return directory / "train.py"


def failing_job(
    directory: Path, ranks: int, code: str, grace: float = 30, **variables: str
) -> subprocess.CompletedProcess[str]:
    """A job by `unisono run`, which dumps to directory/dumps."""
    script = write_script(directory, code)
    environment = {**os.environ, "UNISONO_DUMP": str(directory / "dumps"), **variables}
    return run("-n", ranks, "--grace", grace, script, env=environment, cwd=directory)


_kinds = st.builds(
    Kind,
    st.sampled_from(["allreduce", "barrier", "send"]),
    st.sampled_from([None, "ring", "direct"]),
    st.sampled_from([None, "float32"]),
    st.sampled_from([None, "sum"]),
    st.sampled_from([None, 0, 1]),
)
_errors = st.sampled_from(
    ["PeerLost", "DeadlineExceeded", "MismatchError", "UnisonoError", "KeyboardInterrupt", "ValueError", "SystemExit"]
)
_messages = st.one_of(
    st.text(max_size=20),
    st.builds("rank {} lost rank {}: its process has ended".format, st.integers(0, 6), st.integers(0, 6)),
    st.builds("rank {} (host a, pid 1) was interrupted in barrier".format, st.integers(0, 6)),
)
_times = st.integers(0, 1 << 63)
_frames = st.builds(Frame, st.text(max_size=8), st.integers(0, 99), st.text(max_size=8), st.booleans())
_threads = st.builds(Thread, st.text(max_size=8), st.booleans(), st.lists(_frames, max_size=3))


def _records(members: int) -> st.SearchStrategy[Record]:
    peers = st.builds(
        Peer, st.integers(0, members - 1), st.booleans(), st.none() | _times, st.integers(0, 1 << 40), _times, _times
    )
    return st.builds(
        Record,
        st.integers(0, 9),
        st.none() | st.integers(0, 9),
        _kinds,
        st.integers(0, 1 << 50),
        st.text(max_size=8),
        _times,
        st.none() | _times,
        st.booleans(),
        st.lists(peers, max_size=4),
    )


@st.composite
def any_dumps(draw: st.DrawFn) -> list[Dump]:
    """Whatever ranks may leave: of one or two runs, of all ranks or of some, of several communicators."""
    size = draw(st.integers(1, 5))
    found = []
    for _ in range(draw(st.integers(0, 8))):
        rank = draw(st.integers(0, size - 1))
        others = draw(st.lists(st.integers(0, size - 1), unique=True))
        ranks = draw(st.sampled_from([list(range(size)), sorted({rank, *others})]))
        calls = draw(st.lists(_records(len(ranks)), max_size=4))
        told_by = draw(st.none() | st.integers(0, size - 1))
        found.append(
            dump(rank, size, "", "", *calls)._replace(
                run=draw(st.sampled_from(["run", "another run"])),
                host=draw(st.sampled_from(["a", "b"])),
                communicator=WORLD if len(ranks) == size else draw(st.sampled_from(["world.0.1", "world.1.0"])),
                ranks=ranks,
                clock=draw(st.floats(-1e18, 1e18)),
                failure=Failure(draw(_errors), draw(_messages), draw(st.text(max_size=8)), told_by),
                threads=draw(st.lists(_threads, max_size=2)),
            )
        )
    return found
