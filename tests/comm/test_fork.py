"""Processes that a rank starts: forked ones are refused its communicators, none disturbs it, and its death is heard."""

from __future__ import annotations

import gc
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
from tests.launcher.processes import eventually, run

import unisono
from unisono.comm.communicator import Communicator
from unisono.errors import ConfigError, PeerLost

SECONDS = 20  # for what takes a moment, on a machine that is busy with other tests
MARGIN = 20.0  # for the same reason, beyond the second that is promised; a child that kept links would live longer
FORKED = "this process was forked from rank {rank} (pid {pid}): the communicator belongs to that process"


def fork(function: Callable[[], None]) -> int:
    """A child that calls the function and ends, with 0 if all went well."""
    child = os.fork()
    if child == 0:
        signal.alarm(SECONDS)  # whatever happens, it is not left behind
        try:
            function()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return child


def exit_code(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@contextmanager
def living_children(number: int, function: Callable[[], None] = lambda: None) -> Iterator[list[int]]:
    """Children that have called the function and wait for the end of the block."""
    waiting, end = os.pipe()

    def live() -> None:
        function()
        os.close(end)
        os.read(waiting, 1)

    children = [fork(live) for _ in range(number)]
    os.close(waiting)
    try:
        yield children
    finally:
        os.close(end)
    assert [exit_code(child) for child in children] == [0] * number


def descriptors() -> dict[int, str]:
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            found[int(name)] = os.readlink(f"/proc/self/fd/{name}")
        except FileNotFoundError:  # the one that lists them
            continue
    return found


def refused(comm: Communicator, parent: int) -> None:
    """Whatever it is asked for."""
    x = np.ones(5000)
    uses: list[tuple[Any, ...]] = [
        ("barrier",),
        ("stats",),
        ("duplicate",),
        ("split", 0),
        ("empty", 10_000),
        ("scan", x),
    ]
    uses += [("allreduce", x), ("allgatherv", x), ("start", "allreduce", x), ("start", "split", 0)]
    for name, *arguments in uses:
        with pytest.raises(ConfigError, match=re.escape(FORKED.format(rank=comm.rank, pid=parent))):
            getattr(comm, name)(*arguments)


@pytest.mark.parametrize("links", ["auto", "staged", "tcp"])
def test_a_child_has_no_descriptor_of_ours_and_is_refused_every_use(links: str) -> None:
    def job() -> int:
        before = descriptors()
        comm = unisono.init(links=links)
        part = comm.split(0)
        assert part is not None
        parent, shared = os.getpid(), comm.empty(5000)
        shared[:] = comm.rank

        def child() -> None:
            assert descriptors().items() <= before.items()
            refused(comm, parent)
            refused(part, parent)
            assert shared.min() == shared.max() == comm.rank  # the memory is there
            comm.close()
            with comm:
                pass
            assert "rank" in repr(comm)

        code = exit_code(fork(child))
        assert comm.allreduce(np.full(5000, comm.rank + 1.0))[0] == 3
        assert part.allreduce(shared)[0] == 1
        comm.close()
        part.close()
        return code

    assert unisono.launch(job, 2, timeout=60) == [0, 0]


def test_a_child_that_collects_and_ends_every_object_leaves_the_parent_undisturbed() -> None:
    def job() -> int:
        things: list[Any] = [unisono.init()]
        comm = things[0]
        things += [comm.duplicate(), comm.empty(1_000_000), comm.allreduce(np.ones(1000))]

        def child() -> None:
            nonlocal comm
            del comm
            things.clear()
            gc.collect()
            with unisono.init(rank=0, size=1) as own:  # takes the numbers of the descriptors that were closed
                assert own.allreduce(np.ones(100_000)).sum() == 100_000

        code = exit_code(fork(child))
        things[2][:] = comm.rank + 1
        assert things[1].allreduce(things[2]).sum() == 3_000_000
        things[1].close()
        comm.close()
        return code

    assert unisono.launch(job, 2, timeout=60) == [0, 0]


def test_results_are_right_while_children_live() -> None:
    def job() -> None:
        with unisono.init() as comm, living_children(2, gc.collect):
            random = np.random.default_rng(comm.rank)
            for _ in range(200):
                x = random.integers(0, 1000, 5000)
                everything = comm.allgather(x)
                np.testing.assert_array_equal(comm.allreduce(x), everything.sum(0))

    unisono.launch(job, 3, timeout=100)


@pytest.mark.parametrize("links", ["auto", "tcp"])
def test_a_fork_while_calls_are_under_way_leaves_them_alone_and_the_child_clean(links: str, tmp_path: Path) -> None:
    """One in a thread, one on the core's thread, one on a thread of Python's."""

    def job() -> list[float]:
        comm = unisono.init(links=links)
        twin, third = comm.duplicate(), comm.duplicate()
        x = np.full(100_000, comm.rank + 1.0)
        results: list[Any] = []
        if comm.rank == 0:
            parent = os.getpid()
            through = comm.start("allreduce", [1])
            assert through.wait(SECONDS) == [2]
            blocked = threading.Thread(target=lambda: results.append(comm.allreduce(x)))
            blocked.start()
            started, submitted = twin.start("allreduce", x), third.start("allgatherv", x)
            everywhere = (comm, twin, third)
            assert eventually(lambda: all(map(in_a_call, everywhere)), SECONDS)

            def child() -> None:
                assert through.wait() == [2]  # is known
                for handle in (started, submitted):
                    assert f"process {parent}" in repr(handle)
                    for use in (handle.wait, handle.done, lambda: handle.wait(1)):  # noqa: B023
                        with pytest.raises(ConfigError, match=rf"the one that started this .* \(pid {parent}\)"):
                            use()
                for each in everywhere:
                    refused(each, parent)
                with unisono.init(rank=0, size=1) as own:
                    assert own.start("allreduce", [5]).wait(SECONDS) == [5]

            for _ in range(3):
                assert exit_code(fork(child)) == 0
            (tmp_path / "forked").touch()
            blocked.join(SECONDS)
            results += [started.wait(SECONDS), submitted.wait(SECONDS)]
        else:
            assert comm.allreduce([1]) == [2]
            assert eventually((tmp_path / "forked").exists, 3 * SECONDS)
            results += [comm.allreduce(x), twin.allreduce(x), third.allgatherv(x)]
        for each in (third, twin, comm):
            each.close()
        return [float(result.sum()) for result in results]

    assert unisono.launch(job, 2, timeout=100) == [[300_000.0] * 3] * 2


@pytest.mark.parametrize("links", ["auto", "tcp"])
def test_a_signal_handler_that_forks_in_the_middle_of_a_call_ends_it_in_the_child_only(
    links: str, tmp_path: Path
) -> None:
    def job() -> list[str]:
        comm = unisono.init(links=links)
        parent, children, said = os.getpid(), [], []
        comm.barrier()
        if comm.rank == 0:

            def handler(number: int, frame: object) -> None:
                children.append(os.fork())
                if children[-1] == 0 and len(children) == 2:
                    sys.exit(3)  # out of the call

            signal.signal(signal.SIGUSR1, handler)
            sender = threading.Thread(target=send_twice, args=(parent, children))
            try:
                sender.start()
                total = comm.allreduce([1])[0]
            except ConfigError as error:  # the first child comes back from the handler
                os._exit(0 if "forked from" in str(error) and os.getpid() != parent else 1)
            except SystemExit as error:
                os._exit(int(error.code or 0))
            sender.join()
            said = [str(exit_code(child)) for child in children]
        else:
            assert eventually((tmp_path / "forked").exists, SECONDS)
            total = comm.allreduce([1])[0]
        assert total == 2
        comm.barrier()
        comm.close()
        return said

    def send_twice(pid: int, children: list[int]) -> None:
        for number in (1, 2):
            time.sleep(0.2)  # well into the call; earlier is right as well
            os.kill(pid, signal.SIGUSR1)
            assert eventually(lambda: len(children) == number, SECONDS)  # noqa: B023
        (tmp_path / "forked").touch()

    assert unisono.launch(job, 2, timeout=60)[0] == ["0", "3"]


def in_a_call(comm: Communicator) -> bool:
    recent = comm.stats()["recent"]
    return bool(recent) and recent[-1]["ended"] is None


def sleep_for_long() -> NoReturn:
    signal.alarm(2 * SECONDS)  # whatever happens, it is not left behind
    while True:
        time.sleep(1)


def start_a_child(kind: str) -> int:
    if kind == "subprocess":
        return subprocess.Popen([sys.executable, "-c", f"import time; time.sleep({2 * SECONDS})"]).pid
    return fork(sleep_for_long)


WAYS: dict[str, tuple[str, Callable[[Communicator], Any]]] = {
    "direct": ("auto", lambda comm: comm.allreduce(np.ones(1_000_000))),
    "staged": ("staged", lambda comm: comm.allreduce(np.ones(1_000_000))),
    "ring": ("auto", lambda comm: comm.recv(1, out=np.ones(1_000_000))),  # pairs do not share, they send
    "tcp": ("tcp", lambda comm: comm.allreduce(np.ones(1_000_000), algorithm="ring")),
}


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("kind", ["fork", "subprocess"])
@pytest.mark.parametrize("way", WAYS)
def test_the_death_of_a_rank_is_heard_though_a_child_of_it_lives(way: str, kind: str, tmp_path: Path) -> None:
    links, call = WAYS[way]

    def job() -> None:
        comm = unisono.init(links=links)
        comm.barrier()
        if comm.rank == 1:
            child = start_a_child(kind)
            comm.barrier()  # afterwards the child has let go of everything: it does so before it does anything else
            assert eventually(lambda: len(list(tmp_path.glob("calls-*"))) == 2)  # the others are through with it, too
            time.sleep(0.5)  # into the call; earlier is right as well
            (tmp_path / "child").write_text(str(child))
            (tmp_path / "killed").write_text(str(time.monotonic()))
            os.kill(os.getpid(), signal.SIGKILL)
        comm.barrier()
        (tmp_path / f"calls-{comm.rank}").touch()
        try:
            call(comm)
        except PeerLost as error:
            since = time.monotonic() - float((tmp_path / "killed").read_text())
            os.kill(int((tmp_path / "child").read_text()), 0)  # it lives
            (tmp_path / f"survivor-{comm.rank}").write_text(f"{since} {error}")

    with pytest.raises(PeerLost, match="rank 1"):
        unisono.launch(job, 3, timeout=60)
    for rank in (0, 2):
        since, _, text = (tmp_path / f"survivor-{rank}").read_text().partition(" ")
        assert float(since) < 1 + MARGIN
        assert re.search(r"rank [02]\b.* lost rank 1\b", text)
    child = int((tmp_path / "child").read_text())
    assert eventually(lambda: not Path(f"/proc/{child}").exists(), SECONDS)  # the launcher ends it


LOOK = ["ls", "-l", "/proc/self/fd"]
STARTERS: dict[str, Callable[[], str]] = {
    "subprocess": lambda: subprocess.check_output(LOOK, close_fds=False, text=True),
    "preexec_fn": lambda: subprocess.check_output(LOOK, close_fds=False, text=True, preexec_fn=os.getpid),
    "popen": lambda: os.popen(" ".join(LOOK)).read(),
}


def open_in_program(starter: str) -> list[str]:
    """Without the pipe to us, and the directory that it reads."""
    found = re.findall(r" (\d+) -> (\S+)", STARTERS[starter]())
    return [f"{number} {name}" for number, name in found if number != "1" and not name.startswith("/proc")]


@pytest.mark.parametrize("starter", STARTERS)
@pytest.mark.parametrize("links", ["auto", "tcp"])
def test_a_program_that_a_rank_executes_gets_no_descriptor_and_calls_go_on(starter: str, links: str) -> None:
    def job() -> tuple[list[str], list[str]]:
        before = open_in_program(starter)
        with unisono.init(links=links) as comm:
            x = np.ones(1_000_000)
            handles = [comm.start("allreduce", x) for _ in range(20)]
            after = open_in_program(starter)
            assert all(handle.wait(SECONDS)[-1] == 2 for handle in handles)
            return before, after

    for before, after in unisono.launch(job, 2, timeout=60):
        assert "0 /dev/null" in after
        assert after == before


# ---- as users fork: scripts, whose children run on to their own end

ENDING = """
import gc, os, pathlib, sys
import numpy as np
import unisono
here = pathlib.Path(sys.argv[1])
comm = unisono.init()
part, twin = comm.split(rank % 2), comm.duplicate()
shared = comm.empty(10_000)
shared[:] = rank + 1
if rank == 0:
    handle = twin.start("allreduce", shared)
    child = os.fork()
    if child == 0:
        {ending}
    print("child", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    (here / "ended").touch()
    total = handle.wait(20)
else:
    while not (here / "ended").exists(): pass
    total = twin.allreduce(shared)
assert total.sum() == 30_000 and comm.allreduce([rank]) == [1] and part.allreduce([1]) == [1]
print("parent", shared.sum())
"""


@pytest.mark.parametrize(
    ("ending", "code", "words"),
    [
        ("sys.exit(3)", 3, ""),
        ("os._exit(3)", 3, ""),
        ("raise ValueError('of the child')", 1, "ValueError: of the child"),
        ("del comm, part, twin, handle, shared; gc.collect(); sys.exit(3)", 3, ""),
        ("comm.close(); twin.close(); sys.exit(3)", 3, ""),
        ("comm.barrier()", 1, "unisono.errors.ConfigError: this process was forked from rank 0"),
    ],
    ids=["sys.exit", "os._exit", "exception", "garbage", "close", "refusal"],
)
@pytest.mark.parametrize("variables", [{}, {"UNISONO_LINKS": "tcp"}, {"UNISONO_TRACE": "trace"}], ids=str)
def test_a_child_may_end_in_any_way(
    ending: str, code: int, words: str, variables: dict[str, str], tmp_path: Path
) -> None:
    script = tmp_path / "script.py"
    script.write_text("rank = int(__import__('os').environ['UNISONO_RANK'])\n" + ENDING.format(ending=ending))
    done = run("-n", 2, script, tmp_path, env=os.environ | variables | {"PYTHONWARNINGS": "error"}, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [f"[0] child {code}", "[0] parent 10000.0", "[1] parent 20000.0"]
    assert (words in done.stderr) if words else done.stderr == "", done.stderr
    for trace in tmp_path.glob("trace/*"):
        assert {event["pid"] for event in json.loads(trace.read_text())} == {int(re.findall(r"\d+", trace.name)[0])}


POOL = """
import multiprocessing, os
import numpy as np
import unisono
from unisono.errors import ConfigError

comm = unisono.init()
multiprocessing.set_start_method("fork")

def square(x): return x * x
def misuse(x): return comm.allreduce([x])

with multiprocessing.Pool(2) as pool:
    results = pool.map_async(square, range(100))
    totals = [comm.allreduce([rank])[0] for _ in range(100)]
    assert results.get(20) == [x * x for x in range(100)] and totals == [1] * 100
    try:
        pool.apply_async(misuse, (1,)).get(20)
    except ConfigError as error:
        assert f"forked from rank {rank} (pid {os.getpid()})" in str(error)
        print("refused")
print(comm.allreduce([1]))
"""


def test_a_pool_of_forked_workers_works_beside_calls(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import os\nrank = int(os.environ['UNISONO_RANK'])\n" + POOL)
    done = run("-n", 2, script)
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(done.stdout.splitlines()) == ["[0] [2]", "[0] refused", "[1] [2]", "[1] refused"]


LOADER = """
import numpy as np
import torch
import unisono
from torch.utils.data import DataLoader, Dataset

class Squares(Dataset):
    def __len__(self): return 64
    def __getitem__(self, i): return torch.tensor([float(i * i), float(rank)])

torch.set_num_threads(1)
comm = unisono.init()
twin = comm.duplicate()
loader = DataLoader(Squares(), batch_size=8, num_workers=2, multiprocessing_context="fork", persistent_workers=True)
handle = twin.start("allreduce", torch.ones(100_000))
for epoch in range(2):
    total = torch.zeros(2)
    for batch in loader:
        total += comm.allreduce(batch.sum(0))
    assert total.tolist() == [2.0 * sum(i * i for i in range(64)), 64.0], total
assert handle.wait(20).sum() == 200_000
print("learned")
"""


def test_workers_of_a_data_loader_live_beside_calls(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    script = tmp_path / "script.py"
    script.write_text("import os\nrank = int(os.environ['UNISONO_RANK'])\n" + LOADER)
    done = run("-n", 2, script)
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(done.stdout.splitlines()) == ["[0] learned", "[1] learned"]


LOST_IN_A_CHILD = """
import sys, time
import unisono
from unisono.errors import PeerLost
comm = unisono.init()
(first,) = comm.broadcast([os.getpid()])
if rank == 0:
    child = os.fork()
    if child == 0: raise PeerLost("something of the child's")
    os.waitpid(child, 0)
    sys.exit(7)
while open(f"/proc/{first}/stat").read().rpartition(")")[2].split()[0] != "Z": time.sleep(0.01)
time.sleep(1)  # the launcher has heard of it
sys.exit(9)
"""


def test_a_child_that_lost_something_does_not_speak_for_its_rank(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import os\nrank = int(os.environ['UNISONO_RANK'])\n" + LOST_IN_A_CHILD)
    done = run("-n", 2, script)
    assert done.returncode == 7  # the first who failed, and not because of another
    assert "PeerLost: something of the child's" in done.stderr
