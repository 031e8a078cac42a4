"""Jobs that fail, and what is said about them afterwards."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.lab.labs import SECONDS, needs_lab
from tests.launcher.processes import command, eventually, run
from tests.trace.dumps import failing_job, words, write_script
from tests.trace.traces import wait_until

import unisono
from unisono.comm.black_box import note_uncaught
from unisono.errors import DeadlineExceeded, MismatchError, PeerLost
from unisono.lab import Lab

START = """
import os, signal, sys, time
import numpy as np
import unisono
from together import wait_for_all
comm = unisono.init()
comm.barrier()
for turn in range(3):
    comm.allreduce(np.ones(1 << 18, np.float32), algorithm="ring"); wait_for_all(comm, turn)
"""
RING = "call 3, allreduce ring of 1 MiB float32, train.py:9"
WHO = r"rank {} \(host \S+, pid \d+\)"


def test_a_killed_rank_is_the_first_cause(tmp_path: Path) -> None:
    code = (
        START
        + "if comm.rank == 2:\n    os.kill(os.getpid(), signal.SIGKILL)\ncomm.allreduce([1.0], algorithm='exchange')\n"
    )
    done = failing_job(tmp_path, 4, code)
    assert done.returncode == 128 + signal.SIGKILL
    hint = f"unisono: what each rank did is in {tmp_path}/dumps; see: unisono diagnose {tmp_path}/dumps"
    assert done.stderr.splitlines()[-1] == hint
    text = words(tmp_path / "dumps")
    first = (
        rf"First cause: {WHO.format(2)} was killed by SIGKILL in or after {RING}\. It left no record; rank \d said: "
    )
    assert re.match(first, text)
    assert re.search(r"ank 0 waited [\d.]+ m?s for rank 2, which had not come", text)
    assert re.search(r"^rank 2 .* left no record; was killed by SIGKILL; came", text, re.MULTILINE)
    assert re.search(r"^rank 0 .* was in call 4, allreduce exchange of 8 B .* train.py:12", text, re.MULTILINE)
    assert "No record of rank 2" in text


def test_both_calls_of_a_mismatch_are_told_with_their_lines(tmp_path: Path) -> None:
    code = START + "if comm.rank == 1:\n    comm.allreduce(np.ones(11))\ncomm.broadcast(np.ones(10))\n"
    assert failing_job(tmp_path, 3, code, UNISONO_DEADLINE="20").returncode
    text = words(tmp_path / "dumps")
    # Who has done its part of it does not fail, and leaves no record: then it has said so when it left.
    by_records = "First cause: the ranks made different calls as their call 4: ranks? [02]( and 2)? called broadcast "
    assert re.match(f"{by_records}|First cause: The ranks make different calls: call 4 is broadcast ", text)
    assert re.search(r"of 80 (B|bytes of) float64, root 0,? .*train.py:12", text)
    assert re.search(r"allreduce .* of 88 .*train.py:11", text)


def test_a_rank_that_was_elsewhere_at_the_deadline_is_found_where_it_was(tmp_path: Path) -> None:
    code = START + (
        "def load():\n    time.sleep(60)\n\n"
        "if comm.rank == 1:\n    load()\ncomm.allreduce(np.ones(9), algorithm='ring', deadline=5)\n"
    )
    done = failing_job(tmp_path, 3, code, grace=10)
    assert done.returncode == 1
    text = words(tmp_path / "dumps")
    assert re.match(
        rf"First cause: {WHO.format(1)} did not come in time to call 4, allreduce ring of 72 B float64, train.py:15: "
        r"it was at train.py:11 in load\.",
        text,
    )
    assert re.search(r"\(chain: 0 → 2 → 1\)", text)
    assert re.search(
        r"^rank 1 .* completed call 3, .* train.py:11 in load .*heard of DeadlineExceeded", text, re.MULTILINE
    )


@pytest.mark.parametrize("style", ["open", "with"])
def test_an_error_of_one_rank_is_told_with_its_line(style: str, tmp_path: Path) -> None:
    code = START + (
        "if comm.rank == 1:\n    raise ValueError('no such row')\ncomm.barrier()\n"
        if style == "open"
        else "with comm:\n    if comm.rank == 1:\n        raise ValueError('no such row')\n    comm.barrier()\n"
    )
    done = failing_job(tmp_path, 3, code)
    assert done.returncode == 1
    line = 11 if style == "open" else 12
    text = words(tmp_path / "dumps")
    assert re.match(
        rf"First cause: {WHO.format(1)} raised ValueError: no such row, train.py:{line}\. It had completed {RING}\.",
        text,
    )
    assert re.search(r"ank 0 waited [\d.]+ m?s for rank \d", text)


TELL_WHEN_IT_WAITS = """
import threading

def waits():
    call = comm.stats()["recent"][-1]
    return call["outcome"] == "running" and any(peer["waited"] for peer in call["peers"].values())

def tell():
    while comm.rank != 1 and not waits():
        time.sleep(0.01)
    open(f"{sys.argv[1]}/here-{comm.rank}", "x").close()

threading.Thread(target=tell, daemon=True).start()
"""


def test_ctrl_c_is_told_with_who_kept_the_others_waiting(tmp_path: Path) -> None:
    script = write_script(
        tmp_path, START + TELL_WHEN_IT_WAITS + "if comm.rank == 1:\n    time.sleep(100)\ncomm.barrier()\n"
    )
    job = subprocess.Popen(
        command("-n", 3, "--grace", 30, script, tmp_path),
        env={**os.environ, "UNISONO_DUMP": str(tmp_path / "dumps")},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with job:
        try:
            assert eventually(lambda: len(list(tmp_path.glob("here-*"))) == 3)
            job.send_signal(signal.SIGINT)
            _, errors = job.communicate(timeout=60)
        finally:
            job.kill()
    assert job.returncode == 130
    assert "see: unisono diagnose" in errors.splitlines()[-1]
    text = words(tmp_path / "dumps")
    assert re.match(r"First cause: r.* interrupted \(Ctrl-C\)", text)
    assert re.search(r"^rank 1 .* completed call 3, .* train.py:\d", text, re.MULTILINE)
    assert re.search(r"^rank [02] .* was in call 4, barrier .* rank 1, [\d.]+ m?s", text, re.MULTILINE)


def test_each_communicator_has_its_story(tmp_path: Path) -> None:
    code = START + (
        "pair = comm.split(comm.rank // 2)\n"
        "pair.barrier()\n"
        "if comm.rank == 3:\n    os.kill(os.getpid(), signal.SIGKILL)\n"
        "if comm.rank == 2:\n    pair.allreduce([1.0])\n"
        "comm.barrier()\n"
    )
    failing_job(tmp_path, 4, code)
    files = sorted(path.name for path in (tmp_path / "dumps").iterdir())
    assert "rank-2.world.1.2.failure.json" in files or "rank-2.world.0.2.failure.json" in files
    text = words(tmp_path / "dumps")
    part = r"communicator world\.\d\.2 \(ranks 2 and 3\)"
    assert re.search(rf" in {part}: {WHO.format(3)} was killed by SIGKILL in or after call \d, barrier", text)
    world = r"^(First cause|Then in the communicator of all ranks)"
    assert re.search(rf"{world}: {WHO.format(3)} was killed by SIGKILL", text, re.MULTILINE)


def test_nothing_is_made_unless_something_fails_and_not_where_it_is_switched_off(tmp_path: Path) -> None:
    script = write_script(
        tmp_path, START + "if comm.rank in map(int, sys.argv[1:]):\n    sys.exit(3)\ncomm.barrier()\ncomm.close()\n"
    )
    inherited = {name: text for name, text in os.environ.items() if name != "UNISONO_DUMP"}
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    environment = {**inherited, "TMPDIR": str(temporary)}
    assert run("-n", 2, script, env=environment).returncode == 0
    silent = run("-n", 2, script, 1, env={**environment, "UNISONO_DUMP": "off"})
    assert silent.returncode == 3
    assert "unisono diagnose" not in silent.stderr
    assert list(temporary.iterdir()) == []
    told = run("-n", 2, script, 1, env=environment)
    (folder,) = temporary.iterdir()
    assert told.stderr.splitlines()[-1].endswith(f"unisono diagnose {folder}")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert re.match(rf"First cause: {WHO.format(1)} failed with exit code 3 in or after {RING}", words(folder))


def test_a_directory_that_cannot_be_written_does_not_hide_the_error(tmp_path: Path) -> None:
    (tmp_path / "dumps").write_text("not a directory")
    code = START + "if comm.rank == 1:\n    os.kill(os.getpid(), signal.SIGKILL)\ncomm.barrier()\n"
    done = failing_job(tmp_path, 2, code)
    assert re.search(r"\[0\] unisono: rank 0 cannot write what it did to \S+dumps: ", done.stderr)
    assert re.search(r"\[0\] unisono.errors.PeerLost: rank 0 .* lost rank 1", done.stderr)
    assert "unisono diagnose" not in done.stderr


def test_launch_says_where_the_dumps_are_if_they_were_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def job() -> None:
        with unisono.init() as comm:
            comm.barrier()
            if comm.rank == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            comm.barrier()

    monkeypatch.setenv("UNISONO_DUMP", str(tmp_path / "dumps"))
    with pytest.raises(PeerLost) as caught:
        unisono.launch(job, 2, timeout=60)
    assert caught.value.__notes__[-1].endswith(f"see: unisono diagnose {tmp_path}/dumps")
    assert json.loads(words(tmp_path / "dumps", "--json"))["stories"][0]["cause"]["ranks"] == [1]
    monkeypatch.delenv("UNISONO_DUMP")
    with pytest.raises(PeerLost) as caught:
        unisono.launch(job, 2, timeout=60)
    assert "unisono diagnose" not in str(caught.value.__notes__)


def test_an_error_in_a_launched_function_is_told(tmp_path: Path) -> None:
    def job() -> None:
        comm = unisono.init(dump=str(tmp_path))
        comm.barrier()
        if comm.rank == 1:
            raise ValueError("no such row")
        comm.barrier()

    with pytest.raises(ValueError, match="no such row"):
        unisono.launch(job, 2, timeout=60)
    assert re.match(
        rf"First cause: {WHO.format(1)} raised ValueError: no such row, test_diagnose.py:\d+", words(tmp_path)
    )


def test_each_failure_is_written_once_and_by_started_calls_too(tmp_path: Path) -> None:
    dump = tmp_path / "rank-0.failure.json"

    def job() -> tuple[int, ...]:
        comm = unisono.init(dump=str(tmp_path))
        comm.barrier()
        if comm.rank == 1:
            wait_until(lambda: (tmp_path / "done").exists())
            return ()
        with pytest.raises(DeadlineExceeded):
            comm.start("allreduce", np.ones(3), deadline=0.2).wait()
        first = dump.stat().st_ino
        with pytest.raises(DeadlineExceeded):
            comm.barrier(deadline=0.2)
        second = dump.stat().st_ino
        (tmp_path / "done").touch()
        return first, second

    first, second = unisono.launch(job, 2, timeout=60)[0]
    assert first == second
    found = json.loads(dump.read_text())
    assert found["failure"]["error"] == "DeadlineExceeded"
    assert found["failure"]["told_by"] == 0
    assert [record["kind"]["collective"] for record in found["calls"]] == ["barrier", "allreduce"]


def test_a_failure_after_one_that_was_survived_takes_its_place(tmp_path: Path) -> None:
    def job() -> list[str]:
        comm = unisono.init(dump=str(tmp_path))
        errors = []

        def note() -> None:
            dump = json.loads((tmp_path / f"rank-{comm.rank}.failure.json").read_text())
            errors.append(dump["failure"]["message"])

        for message in ("first", "an echo of it"):
            note_uncaught(ValueError(message))  # as a notebook does, which goes on
            note()
        comm.barrier()
        note_uncaught(ValueError("second"))
        note()
        comm.close()
        return errors

    assert unisono.launch(job, 2, timeout=60) == [["first", "first", "second"]] * 2


def test_a_mistake_in_an_argument_is_no_failure(tmp_path: Path) -> None:
    def job() -> None:
        with unisono.init(dump=str(tmp_path / "dumps")) as comm:
            with pytest.raises(unisono.errors.ConfigError):
                comm.scatterv(np.ones(3), [1])
            if comm.rank == 0:
                with pytest.raises(unisono.errors.ConfigError):
                    comm.gatherv(3.0)

    try:
        unisono.launch(job, 1, timeout=60)
    finally:
        assert not (tmp_path / "dumps").exists()


@pytest.mark.parametrize("links", ["auto", "tcp"])
def test_a_receive_without_a_send_is_told(links: str, tmp_path: Path) -> None:
    def job() -> None:
        comm = unisono.init(links=links, dump=str(tmp_path))
        comm.barrier()
        if comm.rank == 0:
            with pytest.raises(DeadlineExceeded):
                comm.recv(1, out=np.empty(4), deadline=0.3)
        else:
            with pytest.raises((DeadlineExceeded, MismatchError)):
                comm.recv(0, out=np.empty(4), deadline=30)

    unisono.launch(job, 2, timeout=60)
    text = words(tmp_path)
    assert re.search(r"rank [01] waited [\d.]+ m?s for rank [01]", text, re.IGNORECASE)
    assert re.search(r"^rank 0 .* was in recv of 32 B float64 ", text, re.MULTILINE)


@needs_lab
def test_ranks_of_several_hosts_are_told_together(tmp_path: Path) -> None:
    script = write_script(
        tmp_path, START + "if comm.rank == 3:\n    os.kill(os.getpid(), signal.SIGKILL)\ncomm.barrier()\n"
    )
    inherited = {name: text for name, text in os.environ.items() if name != "UNISONO_DUMP"}
    with Lab(2, "1gbit", share=[tmp_path]) as lab:
        done = lab.run(sys.executable, script, ranks=4, timeout=SECONDS, env=inherited)
    assert done.returncode == 128 + signal.SIGKILL
    dumps = Path(done.stderr.split()[-1])
    assert dumps.parent == Path("/var/tmp")
    try:
        text = words(dumps)
    finally:
        shutil.rmtree(dumps)
    assert re.match(r"First cause: rank 3 \(host host1, pid \d+\) was killed by SIGKILL", text)
    assert "whose clocks may differ" in text


def test_the_json_has_what_the_words_say(tmp_path: Path) -> None:
    code = START + "if comm.rank == 1:\n    os.kill(os.getpid(), signal.SIGKILL)\ncomm.barrier()\n"
    failing_job(tmp_path, 2, code)
    found = json.loads(words(tmp_path / "dumps", "--json"))
    assert set(found) > {"run", "names", "stories", "silent", "other_runs", "skipped"}
    (story,) = found["stories"]
    assert (story["cause"]["what"], story["cause"]["ranks"], found["silent"]) == ("died", [1], [1])
    assert story["chain"] == [0, 1]
