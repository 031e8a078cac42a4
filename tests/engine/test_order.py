"""Which operations run at once, and which one after the other."""

import gc
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from tests.engine.bodies import Gate

from unisono.engine import Engine, copy
from unisono.errors import ConfigError


def test_the_lectures_program(engine: Any) -> None:
    values: dict[str, int] = {}
    A, B, D = (engine.variable(name) for name in "ABD")
    engine.push(lambda: values.update(A=2), mutate=[A])
    engine.push(lambda: values.update(B=values["A"] + 1), read=[A], mutate=[B])
    engine.push(lambda: values.update(D=values["A"] * values["B"]), read=[A, B], mutate=[D])
    engine.wait(D)
    assert values["D"] == 6


def test_readers_run_at_the_same_time(parallel: Engine) -> None:
    A, meeting = parallel.variable("A"), threading.Barrier(3)
    for operation in [parallel.push(lambda: meeting.wait(20), read=[A]) for _ in range(3)]:
        operation.wait(20)


def test_what_is_more_important_runs_first() -> None:
    seen: list[int] = []
    with Engine(1) as engine:
        gate = Gate()
        engine.push(gate)
        assert gate.entered.wait(20)
        for priority in (0, -1, 5, 1, 0, 5, -7):
            engine.push(lambda priority=priority: seen.append(priority), priority=priority)
        gate.open()
    assert seen == [5, 5, 1, 0, 0, -1, -7]


def test_those_that_accumulate_take_turns_in_any_order(parallel: Engine) -> None:
    A, B, gate, seen = parallel.variable("A"), parallel.variable("B"), Gate(), []
    parallel.push(gate, mutate=[B])
    parallel.push(lambda: seen.append("late"), read=[B], accumulate=[A])
    parallel.push(lambda: seen.append("early"), accumulate=[A]).wait(20)
    assert seen == ["early"], "it does not wait for one that was pushed before it"
    after = parallel.push(lambda: list(seen), read=[A])
    gate.open()
    assert after.wait(20) == ["early", "late"]


def test_lanes_take_so_many_at_once(parallel: Engine) -> None:
    wide, heavy = parallel.lane("nic", width=2), parallel.lane("memory", bytes=100)
    lock, inside, most, meeting = threading.Lock(), [0, 0], [0, 0], threading.Barrier(2)

    def body(nbytes: int, meets: bool) -> None:
        with lock:
            for i, amount in enumerate((1, nbytes)):
                inside[i] += amount
                most[i] = max(most[i], inside[i])
        meeting.wait(20) if meets else time.sleep(0.001)
        with lock:
            inside[0] -= 1
            inside[1] -= nbytes

    for i in range(40):
        nbytes = (60, 40, 100, 0)[i % 4]
        parallel.push(lambda nbytes=nbytes, i=i: body(nbytes, i < 2), lane=[wide, heavy], bytes=nbytes)
    parallel.wait(deadline=20)
    assert most[0] == 2
    assert most[1] == 100


def test_a_deleted_variable_is_used_to_the_end_but_not_again(engine: Any) -> None:
    A, seen = engine.variable("A"), []
    for i in range(10):
        engine.push(lambda i=i: seen.append(i), mutate=[A])
    A.delete()
    with pytest.raises(ConfigError, match="A was deleted"):
        engine.push(lambda: None, read=[A])
    engine.wait()
    assert seen == list(range(10))


def test_a_variable_that_is_forgotten_while_in_use_still_keeps_the_order(engine: Any) -> None:
    seen: list[int] = []

    def push() -> None:
        A = engine.variable()
        for i in range(20):
            engine.push(lambda i=i: seen.append(i), mutate=[A])

    push()
    gc.collect()
    engine.wait()
    assert seen == list(range(20))


def test_pushes_inside_come_when_they_are_made(engine: Any) -> None:
    A, seen = engine.variable("A"), []

    def outer() -> None:
        for i in range(10):
            engine.push(lambda i=i: seen.append(i), mutate=[A])
        seen.append("outer")

    engine.push(outer)
    engine.wait()
    assert sorted(map(str, seen)) == sorted([*map(str, range(10)), "outer"])
    assert [x for x in seen if x != "outer"] == list(range(10))


def test_many_threads_may_push_and_wait(parallel: Engine) -> None:
    A, count = parallel.variable("A"), [0]

    def add() -> None:
        count[0] += 1

    def push() -> None:
        for _ in range(200):
            parallel.push(add, mutate=[A])
        parallel.wait(A)

    with ThreadPoolExecutor(6) as pool:
        for future in [pool.submit(push) for _ in range(6)]:
            future.result(20)
    assert count == [1200]


def test_priorities_hold_between_operations_with_and_without_the_interpreter() -> None:
    gate, x, y = Gate(), np.zeros(1), np.zeros(1)
    with Engine(1, log=True) as engine:
        engine.push(gate, name="gate")
        assert gate.entered.wait(20)
        first = engine.push(lambda: engine.push(copy(np.ones(1 << 22), out=np.empty(1 << 22)), priority=9).wait())
        for priority in (-5, 3, -2, 0):
            engine.push(copy(x, out=y), priority=priority, name=f"native {priority}")
            engine.push(lambda: None, priority=priority - 1, name=f"python {priority - 1}")
        gate.open()
        first.wait(20)
        engine.wait(deadline=20)
        ran = [each.name for each in sorted(engine.history(), key=lambda each: each.begun)]
    rest = [name for name in ran if name.startswith(("native", "python"))]
    order = ["native 3", "python 2", "native 0", "python -1", "native -2", "python -3", "native -5", "python -6"]
    # The thread that ran while the first one waited inside may still be about to begin one when that takes the next.
    assert sorted(rest) == sorted(order)
    one_came_late = any([x for x in rest if x != late] == [x for x in order if x != late] for late in order)
    assert one_came_late or all(abs(rest.index(name) - place) <= 1 for place, name in enumerate(order)), rest
