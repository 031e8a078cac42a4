"""Engines that are closed or forgotten, and what they let go of."""

import gc
import os
import threading
import time
import weakref
from concurrent.futures import CancelledError
from typing import Any

import pytest
from tests.engine.bodies import Gate, fail
from tests.launcher.processes import eventually

from unisono.engine import Engine
from unisono.errors import ConfigError, DeadlineExceeded


def test_a_closed_engine_takes_nothing_more(engine: Any) -> None:
    seen: list[int] = []
    engine.push(lambda: seen.append(1))
    engine.close()
    engine.close()
    assert seen == [1]
    with pytest.raises(ConfigError, match="closed"):
        engine.push(lambda: None)


def test_closing_may_cancel_what_has_not_begun() -> None:
    engine, gate, ran = Engine(1), Gate(), []
    engine.push(gate)
    assert gate.entered.wait(20)
    late = engine.push(lambda: ran.append(1))
    threading.Thread(target=lambda: (eventually(late.done, 15), gate.open())).start()
    engine.close(cancel=True)
    assert ran == []
    with pytest.raises(CancelledError):
        late.wait(1)


def test_closing_waits_no_longer_than_its_deadline_for_who_never_calls_back(engine: Any) -> None:
    kept: list[Any] = []
    engine.push_async(lambda done: kept.append(done), name="forgotten")
    with pytest.raises(
        DeadlineExceeded, match=r"1 operations .* 0\.1 s, first forgotten, pushed at .*test_closing.py:"
    ):
        engine.close(deadline=0.1)
    assert engine.closed


def count_threads() -> int:
    """Of this process: the crews are native."""
    return len(os.listdir("/proc/self/task"))


def test_an_engine_that_is_forgotten_ends() -> None:
    def use() -> weakref.ref[Engine]:
        engine = Engine(2)
        for _ in range(100):
            engine.push(lambda: time.sleep(0.0001))
        return weakref.ref(engine)

    threads = count_threads()
    gone = [use() for _ in range(20)]
    gc.collect()
    assert all(reference() is None for reference in gone)
    deadline = time.monotonic() + 20
    while count_threads() > threads and time.monotonic() < deadline:
        time.sleep(0.01)
    assert count_threads() <= threads


def test_results_and_failures_are_collected_with_what_they_refer_to() -> None:
    class Thing:
        operation: Any = None

    def use() -> weakref.ref[Thing]:
        thing, engine = Thing(), Engine(1)
        A = engine.variable()

        def body() -> None:
            assert thing is not None
            fail()()

        thing.operation = [engine.push(lambda: thing), engine.push(body, mutate=[A]), engine.push(body, read=[A])]
        with pytest.raises(ValueError, match="bad"):
            engine.close()
        return weakref.ref(thing)

    gone = use()
    gc.collect()
    assert gone() is None


def test_closing_with_a_deadline_takes_no_longer() -> None:
    engine, gate = Engine(1), Gate()
    engine.push(gate)
    began = time.monotonic()
    with pytest.raises(DeadlineExceeded):
        engine.close(deadline=0.1)
    assert time.monotonic() - began < 20
    assert engine.closed
    gate.open()


def test_an_operation_cannot_close_its_engine_which_goes_on() -> None:
    with Engine(2) as engine:
        began = time.monotonic()
        for options in ({}, {"cancel": True}):
            with pytest.raises(ConfigError, match="operation closer waits for all: it would wait for itself"):
                engine.push(lambda options=options: engine.close(**options), name="closer").wait(20)
        assert time.monotonic() - began < 15
        assert engine.push(lambda: "goes on").wait(20) == "goes on"
