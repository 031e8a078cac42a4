"""Workers and servers that die: nobody waits for the dead, and nobody is left without a word."""

import os
import subprocess
from pathlib import Path

import pytest
from tests.comm.processes import free_port
from tests.server.jobs import HERE, UNISONO, run_job, succeed

from unisono.server.replay import log_files, replay


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


def test_a_deadline_says_who_is_awaited_and_the_array_stays_as_it_was(tmp_path: Path) -> None:
    assert succeed("failing_worker.py", "deadline", "", tmp_path).count("named") == 2


def test_a_deadline_says_which_server_does_not_answer(tmp_path: Path) -> None:
    assert "named" in succeed("failing_worker.py", "stopped", "", tmp_path, workers=1)


def test_a_deadline_names_a_server_that_was_late() -> None:
    assert "named" in succeed("failing_worker.py", "late", "", workers=1)


def test_a_read_without_a_bound_says_how_old_it_is() -> None:
    assert "known" in succeed("failing_worker.py", "behind", "")


@pytest.mark.parametrize("kind", ["bsp", "ssp"])
def test_nobody_waits_for_a_worker_that_died_before_it_came(kind: str) -> None:
    run = run_job("absent_worker.py", kind, keep_going=True)
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.count("went on") == 2
    assert "failed with exit code 3; the others go on" in run.stderr


def test_who_waits_again_after_a_deadline_gets_what_was_asked_for(tmp_path: Path) -> None:
    assert "again" in succeed("failing_worker.py", "waits_again", "", tmp_path, workers=2)


@pytest.mark.parametrize("links", ["auto", "tcp"])
def test_a_server_that_stands_still_is_not_dead(links: str) -> None:
    out = succeed("failing_worker.py", "stands_still", "", workers=1, servers=1, UNISONO_LINKS=links)
    assert "goes on" in out


@pytest.mark.parametrize(
    ("kind", "links"),
    [("bsp", "auto"), ("asynchronous", "auto"), ("asynchronous", "tcp"), ("ssp", "auto"), ("essp", "tcp")],
)
def test_pushes_count_once_when_connections_break(tmp_path: Path, kind: str, links: str) -> None:
    assert succeed("failing_worker.py", "breaks", kind, tmp_path, UNISONO_LINKS=links).count("exact") == 3


@pytest.mark.parametrize("kind", ["ssp", "essp"])
def test_the_bound_holds_for_rows_that_were_read_over_a_connection_that_broke(kind: str) -> None:
    assert "fresh" in succeed("failing_worker.py", "renewed", kind, workers=2)


def test_who_describes_a_table_otherwise_is_told() -> None:
    assert succeed("failing_worker.py", "mismatch", "").count("told") == 2


@pytest.mark.parametrize("why", ["quota", "rule"])
def test_a_table_that_one_shard_refuses_is_made_on_none(why: str) -> None:
    there = {"UNISONO_SERVER_MEMORY": "100000", "PYTHONPATH": str(HERE)}
    assert "made" in succeed("failing_worker.py", "refused", why, workers=1, **there)


def test_workers_that_describe_a_table_differently_at_once_leave_one_or_none(tmp_path: Path) -> None:
    assert succeed("failing_worker.py", "raced", "", workers=2, UNISONO_SERVER_LOG=str(tmp_path)).count("agreed") == 2
    for path in log_files(tmp_path):
        assert len(replay(path, 2)) == 21, "of every table the one that was made"


def test_who_was_given_up_and_comes_back_is_told_so(tmp_path: Path) -> None:
    assert "told" in succeed("failing_worker.py", "fenced", "", tmp_path, UNISONO_SERVER_GRACE="0.2")


def test_a_worker_may_join_and_leave(tmp_path: Path) -> None:
    assert "joined" in succeed("failing_worker.py", "join", "", tmp_path)


def test_servers_that_wait_use_no_processor(tmp_path: Path) -> None:
    assert "idle" in succeed("failing_worker.py", "idle", "", tmp_path)


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
    run = subprocess.run(
        [UNISONO, "run", *options, HERE / "failing_worker.py"], capture_output=True, text=True, timeout=60
    )
    assert run.returncode == 2
    assert says in run.stderr


def test_servers_of_a_job_on_several_hosts_stay_for_the_last_worker() -> None:
    options = ["-n", "1", "--servers", "2", "--nnodes", "2", "--rendezvous", f"127.0.0.1:{free_port()}"]
    hosts = [
        subprocess.Popen(
            [UNISONO, "run", *options, "--node-rank", str(number), HERE / "late_worker.py"],
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"UNISONO_KEY": "a key that both of them have"},
        )
        for number in (0, 1)
    ]
    lines = [host.communicate(timeout=120)[0] for host in hosts]
    assert [host.returncode for host in hosts] == [0, 0], lines
    assert ["seen" in line for line in lines] == [True, True]
    assert "seen 2" in lines[1]


def test_a_rule_that_only_the_script_knows_is_refused_and_the_servers_go_on(tmp_path: Path) -> None:
    script = tmp_path / "own_rule.py"
    script.write_text(
        "from unisono.errors import ConfigError\n"
        "from unisono.server import Rule, connect\n"
        "class Local(Rule):\n"
        "    def update(self, value, gradient, state, step): value += gradient\n"
        "with connect(deadline=20) as servers:\n"
        "    try:\n"
        "        servers.table('w', 2, update=Local)\n"
        "    except ConfigError as error:\n"
        "        print('refused:', error, servers.table('v', 2).pull(), flush=True)\n"
    )
    assert "refused: update='__main__:Local' is in the script itself" in succeed(script, workers=1)


def test_ranks_without_servers_are_told_how_to_have_some(tmp_path: Path) -> None:
    script = tmp_path / "alone.py"
    script.write_text("import unisono\nunisono.server.connect()\n")
    run = run_job(script, servers=0, workers=2)
    assert run.returncode == 1
    assert "unisono run --servers" in run.stderr
