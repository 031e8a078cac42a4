"""The life of a lab: three commands, and nothing that is left, however it ends."""

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.lab.labs import command, needs_lab, remains_of, seen_by_machine, unisono_lab
from tests.launcher.processes import eventually, processes_with, token

from unisono.lab import Lab, state
from unisono.lab.host import Host, end_all
from unisono.lab.namespaces import children_beside

pytestmark = needs_lab

# Every rank and a child of it say that they are there, then they wait. The mark is in their arguments.
WAIT = """
import os, pathlib, subprocess, sys, time
here, rank = pathlib.Path(sys.argv[1]), os.environ["UNISONO_RANK"]
child = "import pathlib, sys, time; pathlib.Path(sys.argv[1]).touch(); time.sleep(100)"
subprocess.Popen([sys.executable, "-c", child, here / f"child-{rank}", sys.argv[2]])
(here / f"rank-{rank}").touch()
time.sleep(100)
"""


@pytest.fixture
def name() -> Iterator[str]:
    """Of a lab that is gone after the test, and has left the machine as it was."""
    name, before = f"test-{uuid.uuid4().hex[:12]}", seen_by_machine()
    try:
        yield name
        assert remains_of(name) == []
        assert seen_by_machine() == before
    finally:
        unisono_lab("down", "--name", name)


def start_waiting(name: str, here: Path, mark: str) -> subprocess.Popen[str]:
    words = command("run", "--name", name, "-n", 2, sys.executable, "-c", WAIT, here, mark)
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        assert eventually(lambda: len(list(here.glob("*-[01]"))) == 4)
    except BaseException:
        process.kill()
        process.communicate()
        raise
    return process


def test_three_commands_are_a_job_on_several_hosts(name: str, tmp_path: Path) -> None:
    up = unisono_lab("up", "--hosts", 2, "--rate", "1gbit", "--rate", "host1=100mbit", "--name", name)
    assert up.returncode == 0, up.stderr
    assert [line.split()[:3] for line in up.stdout.splitlines()[1:]] == [
        ["host0", "10.77.0.1", "1gbit"],
        ["host1", "10.77.0.2", "100mbit"],
    ]
    assert "congestion control cubic" in up.stdout
    code = "import unisono; c = unisono.init(); print(c.hosts[c.rank], c.allreduce([c.rank])); c.close()"
    run = unisono_lab("run", "--name", name, "-n", 3, "--log-dir", tmp_path, "--tee", "-v", sys.executable, "-c", code)
    assert run.returncode == 0, run.stderr
    assert sorted(run.stdout.splitlines()) == ["[0] host0 [3]", "[1] host0 [3]", "[2] host1 [3]"]
    assert (tmp_path / "rank-2.out").read_text() == "host1 [3]\n"
    assert "3 ranks on 2 hosts" in run.stderr
    assert "sent" in unisono_lab("status", "--name", name).stdout
    assert unisono_lab("down", "--name", name).stdout == f"lab {name} is down\n"
    assert unisono_lab("down", "--name", name).stdout == f"lab {name} was not up\n"


def test_the_first_rank_that_fails_sets_the_exit_code() -> None:
    with Lab(hosts=2) as lab:
        code = "import os, sys, time; os.environ['UNISONO_RANK'] == '1' and sys.exit(7); time.sleep(100)"
        words = command("run", "--name", lab.name, "-n", 2, "--grace", 0, sys.executable, "-c", code)
        done = subprocess.run(words, capture_output=True, text=True, timeout=60)
        assert done.returncode == 7
        assert "failed with exit code 7" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_ranks_and_their_children_end_with_the_command(number: signal.Signals, tmp_path: Path) -> None:
    mark = token()
    with Lab(hosts=2, share=[tmp_path]) as lab, start_waiting(lab.name, tmp_path, mark) as process:
        process.send_signal(number)
        assert process.wait(60) == {signal.SIGINT: 128 + signal.SIGINT, signal.SIGKILL: -signal.SIGKILL}[number]
        assert eventually(lambda: processes_with(mark) == [])
        assert all(host.alive for host in lab.hosts)


def test_a_lab_that_is_taken_down_takes_its_ranks_along(name: str, tmp_path: Path) -> None:
    mark = token()
    unisono_lab("up", "--name", name, "--share", tmp_path)
    with start_waiting(name, tmp_path, mark) as process:
        assert unisono_lab("down", "--name", name).returncode == 0
        assert remains_of(name) == []
        assert process.wait(60) == 128 + signal.SIGKILL
    assert eventually(lambda: processes_with(mark) == [])


def test_a_broken_lab_is_named_taken_down_and_made_again(name: str) -> None:
    for repair in ("down", "up"):
        assert unisono_lab("up", "--name", name).returncode == 0
        host = state.find(name).hosts[1]
        os.kill(host.pid, signal.SIGKILL)
        assert eventually(lambda host=host: not host.alive)
        run = unisono_lab("run", "--name", name, "-n", 2, "true")
        assert run.returncode == 2
        assert f"host1 is gone, as the process that kept it, {host.pid}, has ended" in run.stderr
        again = unisono_lab(repair, "--name", name)
        assert again.returncode == 0, again.stderr
        assert state.load(name) is None or state.find(name).whole
    assert unisono_lab("down", "--name", name).returncode == 0


def test_a_lab_that_is_up_is_not_made_twice(name: str) -> None:
    assert unisono_lab("up", "--name", name).returncode == 0
    pids = [host.pid for host in state.find(name).hosts]
    twice = unisono_lab("up", "--name", name)
    assert twice.returncode == 2
    assert "is up already" in twice.stderr
    assert [host.pid for host in state.find(name).hosts] == pids
    unisono_lab("down", "--name", name)


@pytest.mark.parametrize("repair", ["down", "up"])
def test_a_lab_whose_making_is_killed_vanishes(name: str, repair: str, tmp_path: Path) -> None:
    here = tmp_path / "reached"
    os.mkfifo(here)
    (tmp_path / "ip").write_text(f"#!/bin/sh\nexec cat {here}\n")  # stops halfway, until we open and close the pipe
    (tmp_path / "ip").chmod(0o755)
    path = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    with subprocess.Popen(command("up", "--name", name), env=os.environ | path) as making, here.open("w"):
        assert len(processes_with(f"{name}/")) == 3
        making.kill()
        assert eventually(lambda: processes_with(f"{name}/") == [])
    assert unisono_lab(repair, "--name", name).returncode == 0
    unisono_lab("down", "--name", name)


def test_a_lab_ends_with_the_process_that_uses_it_as_an_object(name: str) -> None:
    code = f"from unisono.lab import Lab; Lab(2, name={name!r}).up(); print('up', flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        assert len(processes_with(f"{name}/")) == 3
        process.kill()
    assert eventually(lambda: processes_with(f"{name}/") == [])
    with Lab(hosts=1):  # whoever comes next sweeps
        assert name not in state.names()


def test_an_error_inside_takes_the_lab_down(name: str) -> None:
    with pytest.raises(ZeroDivisionError), Lab(hosts=2, name=name):
        raise ZeroDivisionError
    assert remains_of(name) == []


def test_another_process_with_the_number_of_a_host_is_left_alone() -> None:
    with subprocess.Popen(["sleep", "100"]) as stranger:
        end_all([Host("host0", stranger.pid, 1, "10.77.0.1", None)])
        assert stranger.poll() is None
        stranger.kill()


def test_a_host_that_waits_for_a_rank_to_be_buried_is_no_longer_alive() -> None:
    with Lab(hosts=1) as lab:
        host = lab.hosts[0]
        with host.process() as pidfd, children_beside(pidfd):
            rank = subprocess.Popen(["sleep", "100"])
        os.kill(host.pid, signal.SIGKILL)
        assert eventually(lambda: not host.alive)
        assert Path(f"/proc/{host.pid}").exists()
        assert rank.wait(30) == -signal.SIGKILL


def test_two_labs_do_not_meet() -> None:
    with Lab(hosts=2) as one, Lab(hosts=2) as other:
        assert one.hosts[0].address == other.hosts[0].address  # each has a switch of its own
        before = other.bytes_received()
        done = one.run(sys.executable, "-c", "import unisono; unisono.init().barrier()", ranks=2, timeout=60)
        assert done.returncode == 0, done.stderr
        assert other.bytes_received() == before
        assert min(one.bytes_received()) > 0


def test_what_the_hosts_cannot_see_is_named(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("print('seen')")
    with Lab(hosts=1) as lab:
        done = lab.run(script, ranks=1, timeout=60)
        assert done.returncode == 2
        assert f"make the lab with --share {tmp_path}" in done.stderr
    with Lab(hosts=1, share=[tmp_path]) as lab:
        assert lab.run(script, ranks=1, timeout=60).stdout == "[0] seen\n"


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("run", "-n", 0, "true"), "the nearest is 1"),
        (("run", "-n", 2), "nothing to run"),
        (("run", "-n", 2, "no_such_script.py"), "no script"),
        (("run", "--grace", -1, "true"), "from 0 up"),
    ],
)
def test_nonsense_in_a_run_is_one_line(arguments: tuple[object, ...], hint: str) -> None:
    with Lab(hosts=1) as lab:
        done = unisono_lab(arguments[0], "--name", lab.name, *arguments[1:])
    assert done.returncode == 2
    assert hint in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_misspelt_lab_is_guessed() -> None:
    with Lab(hosts=1) as lab:
        done = unisono_lab("run", "--name", lab.name[:-1], "true")
    assert done.returncode == 2
    assert "did you mean" in done.stderr
