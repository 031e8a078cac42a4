"""Workers and servers that die: nobody waits for the dead, and nobody is left without a word."""

from pathlib import Path

import pytest
from tests.server.jobs import run_job, succeed


@pytest.mark.parametrize("consistency", ["bsp", "ssp"])
def test_the_others_go_on_without_a_worker_that_was_killed(consistency: str) -> None:
    out = succeed(
        "failing_worker.py", "kill_worker", consistency, threads=2, keep_going=True, UNISONO_SERVER_GRACE="0.2"
    )
    assert "went on" in out


@pytest.mark.parametrize("which", [0, 1])
def test_a_dead_server_ends_the_job_with_an_error_on_every_worker(which: int) -> None:
    run = run_job("failing_worker.py", "kill_server", which)
    assert run.stdout.count("heard: ") == 3, run.stdout + run.stderr
    assert run.stdout.count("and again") == 3
    assert all(f"server {which}" in line for line in run.stdout.splitlines() if "heard: " in line), run.stdout
    assert run.stdout.count("from the last snapshot") == 3
    assert "killed by SIGKILL" in run.stderr
    assert f"server {which} (pid" in run.stderr
    assert run.returncode == 128 + 9


def test_a_deadline_says_who_is_awaited_and_the_array_stays_as_it_was() -> None:
    assert succeed("failing_worker.py", "deadline", "").count("named") == 2


@pytest.mark.parametrize("kind", ["bsp", "asynchronous"])
def test_pushes_count_once_when_connections_break(tmp_path: Path, kind: str) -> None:
    assert succeed("failing_worker.py", "breaks", kind, tmp_path).count("exact") == 3


def test_who_describes_a_table_otherwise_is_told() -> None:
    assert succeed("failing_worker.py", "mismatch", "").count("told") == 2


def test_who_was_given_up_and_comes_back_is_told_so() -> None:
    assert "told" in succeed("failing_worker.py", "fenced", "", UNISONO_SERVER_GRACE="0.2")


def test_a_worker_may_join_and_leave() -> None:
    assert "joined" in succeed("failing_worker.py", "join", "")


def test_servers_that_wait_use_no_processor() -> None:
    assert "idle" in succeed("failing_worker.py", "idle", "")


def test_the_servers_of_a_job_are_gone_when_it_ends(tmp_path: Path) -> None:
    script = tmp_path / "lives.py"
    script.write_text(
        "import os, sys\n"
        "sys.path.insert(0, os.environ['HERE'])\n"
        "from failing_worker import server_pids\n"
        "from unisono.server import connect\n"
        "connect().table('w', 3).clock()\n"
        "print('servers', *server_pids(), flush=True)\n"
    )
    out = succeed(script, workers=1, HERE=str(Path(__file__).parent))
    pids = out.split("servers")[1].split()
    assert len(pids) == 2
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--servers", "65"], "valid is 0 to 64"),
        (["--servers", "1", "--server-threads", "0"], "valid is 1 to 64"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: list[str], says: str) -> None:
    import subprocess

    from tests.server.jobs import HERE, UNISONO

    run = subprocess.run(
        [UNISONO, "run", *options, HERE / "failing_worker.py"], capture_output=True, text=True, timeout=60
    )
    assert run.returncode == 2
    assert says in run.stderr


def test_ranks_without_servers_are_told_how_to_have_some(tmp_path: Path) -> None:
    script = tmp_path / "alone.py"
    script.write_text("import unisono\nunisono.server.connect()\n")
    run = run_job(script, servers=0, workers=2)
    assert run.returncode == 1
    assert "unisono run --servers" in run.stderr
