"""unisono.launch(): functions as ranks, in fresh interpreters and in forks."""

import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.launcher import ranks as on_ranks
from tests.launcher.processes import eventually, processes_with, token

import unisono
from unisono.errors import ConfigError, DeadlineExceeded, PeerLost, UnisonoError


def children() -> set[str]:
    return {pid for task in Path("/proc/self/task").iterdir() for pid in (task / "children").read_text().split()}


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    files, processes = len(os.listdir("/proc/self/fd")), children()
    yield
    assert children() <= processes
    assert len(os.listdir("/proc/self/fd")) <= files


def test_values_come_back_by_rank() -> None:
    answers = unisono.launch(on_ranks.place, 3, "a", [1.5])
    assert [answer[1:-3] for answer in answers] == [("a", [1.5], str(r), "3", str(r), "3") for r in range(3)]
    assert len({answer[-3:] for answer in answers}) == 1  # one rendezvous, key and job
    assert len({os.getpid(), *(answer[0] for answer in answers)}) == 4


def test_closures_and_lambdas_run_too() -> None:
    offset = 10
    lock = threading.Lock()  # cannot be pickled
    assert unisono.launch(lambda: (offset + int(os.environ["UNISONO_RANK"]), lock.locked())) == [
        (10 + rank, False) for rank in range(4)
    ]


def test_an_argument_that_cannot_be_pickled_is_no_obstacle() -> None:
    assert unisono.launch(apply, 2, lambda: 5) == [5, 5]


def apply(function):
    return function()


def test_a_function_of_a_script_needs_no_guard(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent("""
            import atexit, os, unisono
            atexit.register(print, "the end of the script")
            def square(x):
                atexit.register(print, "the end of a rank")
                return x * x, os.environ["UNISONO_RANK"]
            print("before", flush=False)
            print(unisono.launch(square, 2, 7))
        """)
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60)
    assert done.stderr == ""
    assert sorted(done.stdout.splitlines()) == sorted(
        ["before", "[0] the end of a rank", "[1] the end of a rank", "[(49, '0'), (49, '1')]", "the end of the script"]
    )


def test_large_values_come_back() -> None:
    assert unisono.launch(on_ranks.return_much, 2) == [bytes(5_000_000), b"\x01" * 5_000_000]


@pytest.mark.parametrize("fork", [False, True])
def test_an_exception_is_raised_again_with_its_rank_and_traceback(fork: bool) -> None:
    with pytest.raises(ValueError, match="no such row: 2") as caught:
        unisono.launch((lambda: fail_here()) if fork else on_ranks.fail_on, 3, *([] if fork else [2]))
    notes = "\n".join(caught.value.__notes__)
    assert "raised by rank 2 of 3" in notes
    assert re.search(r'File ".*", line \d+, in (fail_on|fail_here)', notes)
    assert "worker.py" not in notes


def fail_here() -> None:
    if os.environ["UNISONO_RANK"] == "2":
        raise ValueError("no such row: 2")


@pytest.mark.usefixtures("patient")
def test_a_lost_peer_is_not_taken_for_the_first_failure() -> None:
    with pytest.raises(ValueError, match="the cause") as caught:
        unisono.launch(on_ranks.blame_rank_1, 3)
    assert sum("PeerLost: rank 1 is gone" in note for note in caught.value.__notes__) == 2


def test_an_exception_that_cannot_travel_is_told() -> None:
    with pytest.raises(UnisonoError, match=r"Stubborn: no way \(3\)") as caught:
        unisono.launch(on_ranks.raise_stubborn, 1)
    assert "in raise_stubborn" in "\n".join(caught.value.__notes__)


def test_a_value_that_cannot_travel_is_told() -> None:
    with pytest.raises(TypeError, match="lock") as caught:
        unisono.launch(on_ranks.return_a_lock, 1)
    assert "A lock was returned, which cannot be sent back." in caught.value.__notes__


def test_a_killed_rank_is_named_and_the_others_are_ended() -> None:
    begin = time.monotonic()
    with pytest.raises(PeerLost, match=r"rank 1 \(pid \d+\) was killed by SIGKILL before it returned from kill_rank_1"):
        unisono.launch(on_ranks.kill_rank_1, 3)
    assert 4.5 < time.monotonic() - begin < 60  # rank 2 had its grace


@pytest.mark.parametrize(("code", "words"), [(3, "SystemExit: 3"), (0, "SystemExit: 0")])
def test_a_rank_that_leaves_does_not_return(code: int, words: str) -> None:
    with pytest.raises(UnisonoError, match=words):
        unisono.launch(on_ranks.leave, 1, code)


def test_output_appears_here_with_labels(capsys) -> None:
    unisono.launch(on_ranks.write, 2)
    out, err = capsys.readouterr()
    assert sorted(out.splitlines()) == [
        "[0] out 0",
        "[0] \ufffd without an end",
        "[1] out 1",
        "[1] \ufffd without an end",
    ]
    assert sorted(err.splitlines()) == ["[0] err 0", "[1] err 1"]


def test_launches_nest(capsys) -> None:
    def outer() -> list[str]:
        return unisono.launch(lambda: print("deep") or os.environ["UNISONO_RANK"], 2)

    assert unisono.launch(outer, 2) == [["0", "1"]] * 2
    assert sorted(capsys.readouterr().out.splitlines()) == [f"[{a}] [{b}] deep" for a in range(2) for b in range(2)]


def test_time_runs_out_and_each_rank_says_where_it_was(tmp_path: Path) -> None:
    begin = time.monotonic()
    with pytest.raises(DeadlineExceeded, match=r"sleep_for_ever\(\): ranks 0, 1 still ran after 10 s") as caught:
        unisono.launch(on_ranks.sleep_for_ever, 2, tmp_path, timeout=10)
    assert time.monotonic() - begin < 60
    assert sum("in sleep_for_ever" in note for note in caught.value.__notes__) == 2


def test_a_thread_may_launch() -> None:
    answers: list[object] = []
    thread = threading.Thread(target=lambda: answers.extend(unisono.launch(on_ranks.place, 2)))
    thread.start()
    thread.join(60)
    assert len(answers) == 2


LAUNCH_AND_WAIT = """
import pathlib, sys, time, unisono
def wait(directory):
    import os, subprocess
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(100)", sys.argv[2]])
    pathlib.Path(directory, os.environ["UNISONO_RANK"]).touch()
    time.sleep(100)
unisono.launch(wait, 2, sys.argv[1])
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_no_process_survives_an_interrupted_or_killed_caller(tmp_path: Path, number: signal.Signals) -> None:
    mark = token()
    code = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n" + LAUNCH_AND_WAIT
    with subprocess.Popen(
        [sys.executable, "-c", code, tmp_path, mark], stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert eventually(lambda: (tmp_path / "0").exists() and (tmp_path / "1").exists())
        process.send_signal(number)
        assert process.wait(30) == -number
    assert eventually(lambda: processes_with(mark) == [])


def test_a_keyboard_interrupt_kills_the_ranks_at_once(tmp_path: Path) -> None:
    def interrupt() -> None:
        eventually(lambda: (tmp_path / "0").exists() and (tmp_path / "1").exists())
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    begin = time.monotonic()
    try:
        thread = threading.Thread(target=interrupt)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            unisono.launch(on_ranks.sleep_for_ever, 2, tmp_path)
        thread.join()
        assert time.monotonic() - begin < 60  # of the 100 s that they sleep
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(
    ("arguments", "options", "hint"),
    [
        ((on_ranks.place, 0), {}, "the nearest is 1"),
        ((on_ranks.place, -1), {}, "the nearest is 1"),
        ((on_ranks.place, 10**6), {}, "the nearest is 1024"),
        ((on_ranks.place, "two"), {}, "write how many"),
        (("place", 2), {}, "calls a function"),
        ((on_ranks.place, 2), {"timeout": 0}, "above 0"),
    ],
)
def test_nonsense_is_refused(arguments, options, hint: str) -> None:
    with pytest.raises(ConfigError, match=hint):
        unisono.launch(*arguments, **options)
