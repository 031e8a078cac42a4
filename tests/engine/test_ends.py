"""Engines that end with their process, or are copied into another one."""

import os
import subprocess
import sys
import time

import pytest

HEADER = """
import os, sys, threading, time
from unisono.engine import Engine
engine = Engine(3)
"""

PROGRAMS = {
    "idle": "engine.push(lambda: None).wait()",
    "long queue": "A = engine.variable(); [engine.push(lambda: time.sleep(0.01), mutate=[A]) for _ in range(100000)]",
    "busy": "[engine.push(lambda: sum(range(100000))) for _ in range(1000)]",
    "native": "from unisono.engine import nothing; [engine.push(nothing) for _ in range(100000)]",
    "never completed": "kept = []; engine.push_async(kept.append); engine.push(lambda: None).wait()",
    "dropped": "engine.push_async(lambda done: None)",
    "waits inside": "engine.push(lambda: engine.push(lambda: time.sleep(0.2)).wait())",
    "pushes inside": "def again():\\n    engine.push(again)\\nengine.push(again)\\ntime.sleep(0.05)",
    "failed": "engine.push(lambda: 1 / 0); time.sleep(0.05)",
    "other thread": "def work():\\n    while True: engine.push(time.time)\\n"
    "threading.Thread(target=work, daemon=True).start(); time.sleep(0.05)",
    "waits inside for ever": "kept = []; later = engine.push_async(kept.append)\\n"
    "engine.push(lambda: later.wait()); time.sleep(0.2)",
    "waits inside for a variable for ever": "kept = []; A = engine.variable()\\n"
    "engine.push_async(kept.append, mutate=[A]); engine.push(lambda: engine.wait(A)); time.sleep(0.2)",
    "other thread waits for ever": "kept = []; later = engine.push_async(kept.append)\\n"
    "threading.Thread(target=later.wait, daemon=True).start(); time.sleep(0.2)",
    "forgotten": "engine.push(lambda: time.sleep(0.1)); del engine",
}


def run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-X", "faulthandler", "-W", "error", "-c", HEADER + program.replace("\\n", "\n")],
        capture_output=True, text=True, timeout=60, env={**os.environ},
    )  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_may_end_at_any_moment(program: str) -> None:
    done = run(PROGRAMS[program])
    assert (done.returncode, done.stdout) == (0, "")
    if program == "other thread":  # which is told that the engine is closed, if there is time to say so
        assert "nanobind" not in done.stderr
    else:
        assert done.stderr == ""


def test_an_operation_that_never_ends_does_not_keep_the_process() -> None:
    done = run("engine.push(lambda: time.sleep(1000)); time.sleep(0.05); print('end')")
    assert (done.returncode, done.stdout) == (0, "end\n")


def test_an_interrupted_wait_ends_the_program() -> None:
    program = "import signal; signal.signal(signal.SIGALRM, signal.default_int_handler); signal.alarm(1)\\n"
    done = run(
        program + "engine.push_async(lambda done: kept.append(done)) if (kept := []) is not None else 0\\nengine.wait()"
    )
    assert "KeyboardInterrupt" in done.stderr
    assert "Fatal" not in done.stderr


def test_a_forked_child_is_refused_and_the_parent_goes_on() -> None:
    program = """
from unisono.errors import ConfigError
A = engine.variable("A")
kept = []
later = engine.push_async(kept.append)
while not kept: pass
over = engine.push(lambda: "over")
over.wait()
forked = threading.Event()
run = lambda: forked.wait(20)
pending = engine.push(run, mutate=[A])
refused = 0
child = os.fork()
if child == 0:
    for use in (lambda: engine.push(lambda: None), lambda: engine.variable(), pending.wait, engine.wait,
                lambda: engine.wait(A), engine.graph, pending.done, pending.cancel, pending.exception,
                lambda: engine.outstanding, A.delete, lambda: engine.lane("l", width=1), lambda: engine.tag(run),
                lambda: kept[0]()):
        try:
            use()
        except ConfigError as error:
            refused += "forked" in str(error)
    refused += over.done() and "of another process" in repr(engine)
    engine.close()
    sys.exit(refused)
_, status = os.waitpid(child, 0)
forked.set()
pending.wait()
kept.pop()()
print(os.waitstatus_to_exitcode(status), engine.push(lambda: "goes on", mutate=[A]).wait())
"""
    done = run(program)
    assert (done.returncode, done.stdout, done.stderr) == (0, "15 goes on\n", "")


def test_an_engine_of_the_childs_own_works() -> None:
    program = """
child = os.fork()
if child == 0:
    with Engine(2) as own:
        sys.exit(own.push(lambda: 7).wait())
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    done = run(program)
    assert (done.returncode, done.stdout, done.stderr) == (0, "7\n", "")


def test_a_wait_in_a_child_that_a_thread_has_forked_can_be_interrupted() -> None:
    """That thread is the child's main one."""
    program = """
import signal
def work():
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        signal.alarm(1)
        own, kept = Engine(1), []
        try:
            own.push_async(kept.append).wait(30)
        except KeyboardInterrupt:
            os._exit(7)
        os._exit(8)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
thread = threading.Thread(target=work)
thread.start()
thread.join()
"""
    done = run(program)
    assert (done.returncode, done.stdout, done.stderr) == (0, "7\n", "")


FORKS = {
    "returns": ("", 0),
    "exits": ("if child == 0: sys.exit(3)", 3),
    "raises": ("if child == 0: 1 / 0", 1),
    "uses an engine of its own": ("if child == 0: own = Engine(1); os._exit(own.push(lambda: 5).wait())", 5),
}


@pytest.mark.parametrize("how", FORKS)
def test_a_child_that_is_forked_inside_of_an_operation_runs_nothing_else(how: str) -> None:
    what, status = FORKS[how]
    program = f"""
read, write = os.pipe()
single = Engine(1)
def fork():
    child = os.fork()
    {what or "pass"}
    return child
forking = single.push(fork)
for i in range(5):
    single.push(lambda: os.write(write, b"%d " % os.getpid()))
child = forking.wait()
single.wait()
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
os.close(write)
print(set(os.read(read, 1000).split()) == {{b"%d" % os.getpid()}})
"""
    done = run(program)
    assert (done.returncode, done.stdout) == (0, f"{status}\nTrue\n")
    assert ("ZeroDivisionError" in done.stderr) == (how == "raises")


def test_engines_have_five_seconds_together_at_the_end() -> None:
    began = time.monotonic()
    done = run("engines = [Engine(1) for _ in range(11)]; [e.push(lambda: time.sleep(1000)) for e in engines]\\n"
               "time.sleep(0.05)")  # fmt: skip
    assert done.returncode == 0
    assert time.monotonic() - began < 40
