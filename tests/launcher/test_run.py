"""`unisono run` with real processes: what they are told, what is shown, and how all of it ends."""

import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from tests.launcher.processes import command, complaint, eventually, processes_with, run, start, token

VARIABLES = """
import os, sys
print(*(os.environ["UNISONO_" + name] for name in ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE")))
print(os.environ["UNISONO_RENDEZVOUS"], os.environ["UNISONO_KEY"], os.environ["UNISONO_JOB"], file=sys.stderr)
print("threads", os.environ.get("OMP_NUM_THREADS"))
print("arguments", *sys.argv[1:])
"""

# Every rank, and a child of every rank, says that it is there; then they wait.
WAIT = """
import os, pathlib, subprocess, sys, time
rank = os.environ["UNISONO_RANK"]
here = pathlib.Path(sys.argv[1])
child = "import pathlib, sys, time; pathlib.Path(sys.argv[1]).touch(); time.sleep(100)"
subprocess.Popen([sys.executable, "-c", child, here / f"child-{rank}", sys.argv[2]])
(here / f"rank-{rank}").touch()
time.sleep(100)
"""


# One rank ends after another one, and after the launcher has heard of that.
AFTER = """
import pathlib, sys, time
here = pathlib.Path(__file__).parent
(here / f"pid-{rank}-{os.getpid()}").touch()

def has_ended(pid):
    try: return pathlib.Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError: return True

def wait_for_the_end_of(other):
    while not (found := list(here.glob(f"pid-{other}-*"))): time.sleep(0.01)
    while not has_ended(found[0].name.split("-")[2]): time.sleep(0.01)
    time.sleep(1)
"""


def lines_of(rank: int, text: str) -> list[str]:
    return [line.partition(" ")[2] for line in text.splitlines() if line.startswith(f"[{rank}] ")]


# ---- what ranks are told


def test_ranks_are_told_their_place_in_the_job(script, monkeypatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    done = run("-n", 3, script(VARIABLES), "--lr", "3", "-n")
    assert done.returncode == 0, done.stderr
    for rank in range(3):
        assert lines_of(rank, done.stdout) == [f"{rank} 3 {rank} 3", "threads 1", "arguments --lr 3 -n"]
    ((rendezvous, key, job),) = {tuple(line.split()[1:]) for line in done.stderr.splitlines()}
    assert re.fullmatch(r"127\.0\.0\.1:\d+", rendezvous)
    assert re.fullmatch(r"[0-9a-f]{64}", key)
    assert job


def test_every_job_has_a_key_of_its_own(script, monkeypatch) -> None:
    monkeypatch.setenv("UNISONO_KEY", "of an outer job")
    keys = [run("-n", 1, script(VARIABLES)).stderr.split()[2] for _ in range(2)]
    assert len({*keys, "of"}) == 3


def test_the_key_is_in_no_argument(script) -> None:
    text = "import os; print(os.environ['UNISONO_KEY'] in open('/proc/self/cmdline').read())"
    assert run("-n", 1, script(text)).stdout == "[0] False\n"


def test_the_users_number_of_threads_is_kept(script, monkeypatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    assert "threads 7" in run("--nproc_per_node", 2, script(VARIABLES)).stdout


def test_ranks_of_the_second_host_are_numbered_after_those_of_the_first(script, monkeypatch) -> None:
    monkeypatch.setenv("UNISONO_KEY", "x" * 64)
    words = ["--nproc-per-node", 2, "--nnodes", 2, "--rendezvous", "a.example:29500", script(VARIABLES)]
    first, second = run("--node-rank", 0, *words), run("--node-rank", 1, *words)
    assert lines_of(1, first.stdout)[0] == "1 4 1 2"
    assert lines_of(3, second.stdout)[0] == "3 4 1 2"
    assert lines_of(1, first.stderr) == lines_of(3, second.stderr)  # one rendezvous, key and job for all


def test_a_module_runs_as_python_would_run_it(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text("import sys; print(__name__, *sys.argv[1:])")
    assert run("-n", 1, "-m", "module", "-m", cwd=tmp_path).stdout == "[0] __main__ -m\n"


def test_a_command_runs_as_it_is() -> None:
    assert run("-n", 1, "echo", "-n", "five").stdout == "[0] five\n"


def test_only_rank_0_reads_stdin(script) -> None:
    done = run("-n", 3, script("import sys; print(repr(sys.stdin.read()))"), input="a line\n")
    assert sorted(done.stdout.splitlines()) == ["[0] 'a line\\n'", "[1] ''", "[2] ''"]


def test_verbose_says_how_many_ranks_and_hosts_and_by_what_they_are_linked(script, monkeypatch) -> None:
    text = "import unisono; comm = unisono.init(); comm.duplicate().close(); comm.close()"
    lines = run("-v", "-n", 3, script(text)).stderr.splitlines()
    assert lines[-1] == "[0] unisono: 3 ranks on 1 host: 3 pairs by shared memory"
    assert re.match(r"unisono: job \w+, rendezvous at 127.0.0.1:\d+, started ranks 0 \(pid \d+\), 1 ", lines[0])
    assert len(lines) == 2
    assert run("-n", 2, script(text)).stderr == ""
    monkeypatch.setenv("UNISONO_LINKS", "tcp")
    assert "3 ranks on 1 host: 3 pairs by TCP" in run("-v", "-n", 3, script(text)).stderr
    assert run("-v", "-n", 1, script(text)).stderr.splitlines()[-1] == "[0] unisono: 1 rank on 1 host"


SOCKETS = """
import os, subprocess, sys
def sockets():
    links = (f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd") if int(name) > 2)
    return sum(os.path.lexists(link) and os.readlink(link).startswith("socket:") for link in links)
"""


def test_rank_0_inherits_the_socket_on_which_the_ranks_meet_and_nobody_else_does(script) -> None:
    text = f"""{SOCKETS}
import socket
before = sockets()
if rank == 0:
    listener = socket.socket(fileno=os.dup(int(os.environ["UNISONO_LISTENER"])))
    assert "%s:%d" % listener.getsockname() == os.environ["UNISONO_RENDEZVOUS"]
    assert listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    listener.close()
import unisono
comm = unisono.init()
child = {SOCKETS!r} + "print(sockets())"
inherited = subprocess.run([sys.executable, "-c", child], close_fds=False, capture_output=True, text=True).stdout
print(before, "UNISONO_LISTENER" in os.environ, inherited)
comm.close()
print(sockets())
"""
    done = run("-n", 2, script(text))
    assert done.returncode == 0, done.stderr
    assert lines_of(0, done.stdout) == ["1 True 0", "", "0"]
    assert lines_of(1, done.stdout) == ["0 False 0", "", "0"]


# ---- what is shown


def test_lines_stay_whole_when_all_ranks_write_at_once(script) -> None:
    text = """
import sys
for i in range(4000):
    for piece in (f"{rank} {i} ", "x" * (i * 7 % 300), "\\n"):
        os.write(1 + i % 2, piece.encode())
"""
    done = run("-n", 4, script(text))
    seen = Counter()
    for line in done.stdout.splitlines() + done.stderr.splitlines():
        label, rank, i, xs = line.split(" ")
        assert label == f"[{rank}]"
        assert xs == "x" * (int(i) * 7 % 300)
        seen[rank] += 1
    assert seen == {str(rank): 4000 for rank in range(4)}


def test_stdout_and_stderr_keep_apart_and_whole_in_one_file(script, tmp_path: Path) -> None:
    text = "import sys\nfor i in range(2000): print('o' * 50); print('e' * 50, file=sys.stderr)"
    with (tmp_path / "both").open("wb") as both:
        subprocess.run(command("-n", 2, script(text)), stdout=both, stderr=subprocess.STDOUT, timeout=60, check=True)
    lines = Counter((tmp_path / "both").read_text().splitlines())
    assert lines == {f"[{rank}] {letter * 50}": 2000 for rank in range(2) for letter in "oe"}


def test_a_last_line_without_an_end_is_shown(script) -> None:
    assert run("-n", 2, script("print('no end', end='')")).stdout.count("no end\n") == 2


def test_bytes_that_are_no_text_pass_unharmed(script) -> None:
    done = subprocess.run(
        command("-n", 2, script("os.write(1, bytes(range(256)) + b'\\n' + b'\\xff\\xfe')")),
        capture_output=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(b"] \xff\xfe\n") == 2


def test_a_line_without_end_does_not_fill_the_memory(script) -> None:
    done = run("-n", 2, script("for _ in range(64): os.write(1, b'y' * 65536)"))
    assert done.stdout.count("y") == 2 * 64 * 65536
    assert max(map(len, done.stdout.splitlines())) < 1_200_000


def test_a_progress_bar_moves_while_it_runs(script) -> None:
    text = "import time\nfor i in range(3): os.write(2, b'\\r%d of 3' % i)\ntime.sleep(100)"
    with start("-n", 1, script(text)) as process:
        assert process.stderr is not None
        seen = b""
        while not seen.endswith(b"1 of 3\r"):
            seen += os.read(process.stderr.fileno(), 1)
        assert seen == b"[0] 0 of 3\r[0] 1 of 3\r"  # the last may still grow
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)


def test_logs_have_all_ranks_and_the_terminal_has_rank_0(script, tmp_path: Path) -> None:
    logs = tmp_path / "new" / "logs"
    text = "import sys; print('out', rank); print('err', rank, file=sys.stderr)"
    done = run("-n", 3, "--log-dir", logs, script(text))
    assert (done.stdout, done.stderr) == ("[0] out 0\n", "[0] err 0\n")
    for rank in range(3):
        assert (logs / f"rank-{rank}.out").read_text() == f"out {rank}\n"
        assert (logs / f"rank-{rank}.err").read_text() == f"err {rank}\n"


def test_tee_shows_all_ranks_and_logs_them(script, tmp_path: Path) -> None:
    done = run("-n", 3, "--log-dir", tmp_path, "--tee", script("print('out', rank)"))
    assert sorted(done.stdout.splitlines()) == ["[0] out 0", "[1] out 1", "[2] out 2"]
    assert [(tmp_path / f"rank-{rank}.out").read_text() for rank in range(3)] == ["out 0\n", "out 1\n", "out 2\n"]


def test_a_reader_that_leaves_ends_the_job_as_it_would_end_a_script(script) -> None:
    with start("-n", 2, script("while True: print('y' * 1000)")) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(60) == 1


# ---- how it ends


def test_the_first_failure_sets_the_exit_code_and_is_named(script) -> None:
    text = f"""{AFTER}
if rank == 2: sys.exit(3)
if rank == 0: wait_for_the_end_of(2); sys.exit(7)
"""
    done = run("-n", 3, "--grace", 30, script(text))
    assert done.returncode == 3
    (line,) = done.stderr.splitlines()
    assert re.fullmatch(r"unisono: rank 2 \(pid \d+\) failed with exit code 3; the others have 30 s to end", line)


def test_what_a_rank_said_last_stands_above_the_news_of_its_failure(script) -> None:
    done = run("-n", 2, script("if rank == 1: raise ValueError('the cause')"))
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert lines[-2:] == ["[1] ValueError: the cause", lines[-1]]
    assert lines[-1].startswith("unisono: rank 1 ")


LOSES = f"""{AFTER}
import signal
import unisono
from unisono.errors import PeerLost
comm = unisono.init()
if rank == 1:
    raise PeerLost("rank 1 lost rank 0: connection reset")
wait_for_the_end_of(1)
"""


@pytest.mark.parametrize(
    ("failure", "code", "words"),
    [
        ("raise SystemExit(7)", 7, "failed with exit code 7"),
        ("os.kill(os.getpid(), signal.SIGKILL)", 137, "was killed by SIGKILL"),
        ("os.kill(os.getpid(), signal.SIGINT); time.sleep(60)", 130, "was killed by SIGINT"),
    ],
)
def test_a_rank_that_lost_another_is_not_to_blame(script, failure: str, code: int, words: str) -> None:
    done = run("-n", 2, "--grace", 30, script(LOSES + failure))
    assert done.returncode == code
    ours = [line for line in done.stderr.splitlines() if line.startswith("unisono: ")]
    assert re.fullmatch(r"unisono: rank 1 \(pid \d+\) failed with exit code 1, having lost .*", ours[0])
    assert re.fullmatch(rf"unisono: rank 0 \(pid \d+\) {words}, before the others did", ours[1])


def test_if_nobody_else_failed_who_lost_another_sets_the_exit_code(script) -> None:
    done = run("-n", 2, "--grace", 0.5, script(LOSES + "time.sleep(100)"))
    assert done.returncode == 1
    assert "rank 0 did not end: SIGTERM" in done.stderr
    assert "before the others did" not in done.stderr


def test_death_by_signal_is_named_and_counted_as_a_shell_does(script) -> None:
    done = run("-n", 2, script("import signal\nif rank == 1: os.kill(os.getpid(), signal.SIGSEGV)"))
    assert done.returncode == 128 + signal.SIGSEGV
    assert "rank 1 (pid " in done.stderr
    assert ") was killed by SIGSEGV" in done.stderr


def test_keep_going_lets_the_others_go_on_and_succeed(script) -> None:
    text = (
        AFTER
        + "import signal\nif rank == 1: os.kill(os.getpid(), signal.SIGKILL)\nwait_for_the_end_of(1)\nprint('done')"
    )
    done = run("-n", 3, "--keep-going", "--grace", 0, script(text))
    assert done.returncode == 0
    assert Counter(done.stdout.splitlines()) == Counter(["[0] done", "[2] done"])
    assert re.search(r"rank 1 \(pid \d+\) was killed by SIGKILL; the others go on", done.stderr)
    assert "ranks 0, 2 went on to the end: this counts as a success" in done.stderr


def test_keep_going_fails_as_the_first_failure_if_nobody_outlives_it_successfully(script) -> None:
    text = AFTER + "if rank: wait_for_the_end_of(rank - 1)\nsys.exit([0, 3, 4][rank])"
    done = run("-n", 3, "--keep-going", script(text))
    assert done.returncode == 3
    assert "counts as a success" not in done.stderr


def test_ctrl_c_ends_those_that_keep_going(script, tmp_path: Path) -> None:
    text = "import pathlib, sys, time\npathlib.Path(sys.argv[1], f'here-{rank}').touch()\ntime.sleep(100)"
    with start("-n", 2, "--keep-going", "--grace", 1, script(text), tmp_path) as process:
        assert eventually(lambda: len(list(tmp_path.glob("here-*"))) == 2)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        assert process.returncode == 128 + signal.SIGINT


def test_the_others_have_their_grace_to_raise_their_own_errors(script) -> None:
    text = AFTER + "if rank == 0: sys.exit(3)\nwait_for_the_end_of(0); print('my own error'); sys.exit(4)"
    done = run("-n", 2, "--grace", 30, script(text))
    assert done.returncode == 3
    assert done.stdout == "[1] my own error\n"


def test_who_ignores_grace_is_terminated_and_who_ignores_that_is_killed(script) -> None:
    text = """
import pathlib, signal, sys, time
ready = pathlib.Path(__file__).parent
if rank == 1: signal.signal(signal.SIGTERM, lambda *_: (os.write(1, b"terminated\\n"), sys.exit(0)))
if rank == 2: signal.signal(signal.SIGTERM, lambda *_: os.write(1, b"not me\\n"))
(ready / str(rank)).touch()
while rank == 0:
    if all((ready / name).exists() for name in "12"): sys.exit(9)
while True: time.sleep(1)
"""
    mark = token()
    begin = time.monotonic()
    done = run("-n", 3, "--grace", "0.5", script(text), mark)
    took = time.monotonic() - begin
    assert done.returncode == 9
    assert sorted(done.stdout.splitlines()) == ["[1] terminated", "[2] not me"]
    assert [line.partition("did not end: ")[2] for line in done.stderr.splitlines()[1:]] == ["SIGTERM", "SIGKILL"]
    assert "ranks 1, 2 did not end: SIGTERM" in done.stderr
    assert "rank 2 did not end: SIGKILL" in done.stderr
    assert 2.5 < took < 60
    assert processes_with(mark) == []


def test_a_rank_that_works_on_after_the_others_is_waited_for(script) -> None:
    done = run("-n", 2, "--grace", 0, script("import time; time.sleep(rank * 1.5); print('done')"))
    assert (done.returncode, done.stdout) == (0, "[0] done\n[1] done\n")


def test_what_a_rank_started_ends_with_the_job(script, tmp_path: Path) -> None:
    mark = token()
    text = (
        "import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', 'import time; time.sleep(99)', sys.argv[1]])"
    )
    begin = time.monotonic()
    assert run("-n", 2, script(text), mark).returncode == 0
    assert time.monotonic() - begin < 60  # not the 99 s of the children
    assert processes_with(mark) == []


@pytest.fixture
def waiting(script, tmp_path: Path):
    """A job of three ranks, each with a child, all of which wait."""
    mark = token()
    process = start("-n", 3, "--grace", 30, script(WAIT), tmp_path, mark)
    names = [tmp_path / f"{kind}-{rank}" for kind in ("rank", "child") for rank in range(3)]
    assert eventually(lambda: all(name.exists() for name in names))
    process.mark = mark  # type: ignore[attr-defined]
    yield process
    process.kill()
    process.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_the_launcher_leaves_nothing_behind(waiting, number: signal.Signals) -> None:
    assert len(processes_with(waiting.mark)) == 7
    waiting.send_signal(number)
    _, err = waiting.communicate(timeout=60)
    assert waiting.returncode == 128 + number
    assert err.count("KeyboardInterrupt") >= 3  # every rank got its SIGINT
    assert "failed" not in err  # we were told to end: no rank is to blame
    assert processes_with(waiting.mark) == []


def test_a_second_ctrl_c_kills_at_once(script, tmp_path: Path) -> None:
    mark = token()
    text = """
import pathlib, signal, sys, time
signal.signal(signal.SIGINT, signal.SIG_IGN); signal.signal(signal.SIGTERM, signal.SIG_IGN)
pathlib.Path(sys.argv[1], str(rank)).touch()
time.sleep(100)
"""
    with start("-n", 2, "--grace", 60, script(text), tmp_path, mark) as process:
        assert eventually(lambda: (tmp_path / "0").exists() and (tmp_path / "1").exists())
        assert process.stderr is not None
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGINT)  # one Ctrl-C that arrives by two ways
        assert "Ctrl-C kills them now" in process.stderr.readline()
        time.sleep(0.5)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130  # of the 60 s that they have
    assert processes_with(mark) == []


def test_ranks_that_end_well_after_ctrl_c_make_a_good_end(script, tmp_path: Path) -> None:
    text = """
import pathlib, sys, time
try:
    pathlib.Path(sys.argv[1], str(rank)).touch()
    time.sleep(100)
except KeyboardInterrupt:
    print("saved")
"""
    with start("-n", 2, "--grace", 30, script(text), tmp_path) as process:
        assert eventually(lambda: (tmp_path / "0").exists() and (tmp_path / "1").exists())
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
        assert process.returncode == 0
        assert sorted(out.splitlines()) == ["[0] saved", "[1] saved"]


BLOCKED = f"""{AFTER}
import threading
import unisono
comm = unisono.init()
comm.barrier()

def tell():
    while rank != 3 and not waits(comm.stats()["recent"][-1]): time.sleep(0.01)
    (here / f"{{rank}}-{{os.getpid()}}").touch()

def waits(call):
    return call["ended"] is None and any(peer["waited"] for peer in call["peers"].values())

threading.Thread(target=tell, daemon=True).start()
if rank == 3:
    for other in range(3): wait_for_the_end_of(other)
    sys.exit()
try:
    comm.barrier()
except BaseException as error:
    print(time.monotonic(), type(error).__name__, error)
    raise
"""


@pytest.fixture
def blocked(script, tmp_path: Path):
    """A job of four ranks, three of which are blocked in a call, and their processes."""
    process = start("-n", 4, "--grace", 30, script(BLOCKED), tmp_path)
    assert eventually(lambda: len(list(tmp_path.glob("?-*"))) == 4)
    process.pids = {int(path.name[0]): int(path.name[2:]) for path in tmp_path.glob("?-*")}  # type: ignore[attr-defined]
    yield process
    process.kill()
    process.communicate()


def test_ctrl_c_reaches_ranks_that_are_blocked_in_a_call_within_a_tenth_of_a_second(blocked) -> None:
    begin = time.monotonic()
    os.killpg(blocked.pid, signal.SIGINT)
    out, _ = blocked.communicate(timeout=60)
    assert blocked.returncode == 130
    for rank in range(3):
        (line,) = lines_of(rank, out)
        when, kind = line.split()[:2]
        # Who hears of another's interrupt before its own has come says so.
        assert kind in ("KeyboardInterrupt", "PeerLost")
        assert float(when) - begin < 0.1 + 20  # most of it for other tests, which run meanwhile
    assert "KeyboardInterrupt" in out


def test_an_interrupted_rank_is_named_by_the_others_and_blamed_by_the_launcher(blocked) -> None:
    os.kill(blocked.pids[1], signal.SIGINT)
    out, err = blocked.communicate(timeout=60)
    assert blocked.returncode == 130
    for rank in (0, 2):
        (line,) = lines_of(rank, out)
        assert re.search(r" PeerLost rank 1 \(host \S+, pid \d+\) was interrupted in barrier$", line)
    assert re.search(r"unisono: rank 1 \(pid \d+\) was killed by SIGINT", err)


def test_nothing_survives_a_launcher_that_is_killed(waiting) -> None:
    waiting.kill()
    waiting.wait()
    assert eventually(lambda: processes_with(waiting.mark) == [])


def test_no_rank_survives_even_if_the_guardian_is_killed_too(waiting) -> None:
    children = Path(f"/proc/{waiting.pid}/task/{waiting.pid}/children").read_text().split()
    (guardian,) = [int(pid) for pid in children if b"guardian.py" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    os.kill(guardian, signal.SIGKILL)
    ranks = [pid for pid in map(int, children) if pid != guardian]
    waiting.kill()
    waiting.wait()
    assert eventually(lambda: not any(pid in processes_with(waiting.mark) for pid in ranks))
    for pid in processes_with(waiting.mark):  # the ranks' children: nobody was left to end them
        os.kill(pid, signal.SIGKILL)


def test_sixty_four_ranks_start_and_end_in_ten_seconds(script) -> None:
    begin = time.monotonic()
    done = run("-n", 64, script("print(rank)"))
    assert time.monotonic() - begin < 10 + 60  # most of it for other tests, which run meanwhile
    assert sorted(done.stdout.splitlines()) == sorted(f"[{rank}] {rank}" for rank in range(64))


# ---- nonsense

NONSENSE = [
    (["-n", "0", "x.py"], "the nearest is 1"),
    (["-n", "-2", "x.py"], "the nearest is 1"),
    (["-n", "5000", "x.py"], "the nearest is 1024"),
    (["-n", "many", "x.py"], "-n"),
    (["-n", "2"], "nothing to run"),
    (["-n", "2", "-m"], "nothing to run"),
    (["-n", "2", "no_such_script.py"], "no script 'no_such_script.py'"),
    (["-n", "2", "no-such-command"], "neither a .py file nor a command"),
    (["-n", "2", "/etc/passwd"], "is not executable"),
    (["-n", "2", "--grace", "-1", "true"], "from 0 up"),
    (["-n", "2", "--grace", "nan", "true"], "from 0 up"),
    (["-n", "2", "--tee", "true"], "--tee needs --log-dir"),
    (["-n", "2", "--log-dir", "/proc/no", "true"], "/proc/no"),
    (["-n", "2", "--nnodes", "0", "true"], "the nearest is 1"),
    (["-n", "2", "--nnodes", "1:4", "true"], "--nnodes"),
    (["-n", "2", "--node-rank", "1", "true"], "see --nnodes"),
    (["-n", "2", "--nnodes", "2", "true"], "needs --node-rank"),
    (["-n", "2", "--nnodes", "2", "--node-rank", "2", "true"], "the nearest is 1"),
    (["-n", "2", "--nnodes", "2", "--node-rank", "1", "true"], "needs --rendezvous"),
    (["-n", "2", "--nnodes", "2", "--node-rank", "1", "--rendezvous", "a:1", "true"], "needs UNISONO_KEY"),
    (["-n", "2", "--rendezvous", "a", "true"], "write host:port"),
    (["-n", "2", "--rendezvous", "a:0", "true"], "write host:port"),
    (["-n", "2", "--rendezvous", "::1:29500", "true"], "write host:port"),
    (["-n", "2", "--rank", "2", "true"], "--rank"),
]


@pytest.mark.parametrize(("arguments", "hint"), NONSENSE, ids=lambda x: " ".join(x) if isinstance(x, list) else "")
def test_nonsense_gets_one_line_and_exit_code_2(arguments: list[str], hint: str, monkeypatch, capfd) -> None:
    monkeypatch.delenv("UNISONO_KEY", raising=False)
    assert hint in complaint(["run", *arguments], monkeypatch, capfd)


def test_a_misspelt_script_is_guessed(script) -> None:
    path = script("")
    assert f"did you mean '{path}'?" in run("-n", 1, path.with_name("scirpt.py")).stderr


def test_a_file_that_cannot_be_executed_is_one_line(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("neither a script nor a program")
    program.chmod(0o755)
    done = run("-n", 2, program)
    assert done.returncode == 2
    assert done.stderr == f"unisono: cannot start rank 0: Exec format error: '{program}'\n"
    assert sys.executable not in done.stderr
