"""Operations that somebody else completes."""

import asyncio
import concurrent.futures
import sys
import threading
import time
from concurrent.futures import CancelledError, ThreadPoolExecutor
from typing import Any

import pytest
from tests.engine.bodies import fail

from unisono.engine import Engine
from unisono.errors import ConfigError, UnisonoError

HERE = "test_asynchronous.py"


def test_an_asynchronous_operation_is_through_when_its_callback_is_called(engine: Any) -> None:
    A, seen = engine.variable("A"), []

    def start(done: Any) -> None:
        threading.Thread(target=lambda: (time.sleep(0.02), seen.append("elsewhere"), done("result"))).start()

    operation = engine.push_async(start, mutate=[A])
    engine.push(lambda: seen.append("after"), read=[A])
    engine.wait(A)
    assert operation.wait() == "result"
    assert seen == ["elsewhere", "after"]


def test_asynchronous_operations_hold_no_thread() -> None:
    callbacks: list[Any] = []
    with Engine(1) as engine:
        operations = [engine.push_async(callbacks.append) for _ in range(50)]
        engine.push(lambda: None).wait(20)
        deadline = time.monotonic() + 20
        while len(callbacks) < 50 and time.monotonic() < deadline:
            time.sleep(0.001)
        assert not any(operation.done() for operation in operations)
        while callbacks:
            callbacks.pop()()


def test_a_second_completion_is_reported_with_the_line_of_the_push(engine: Any) -> None:
    kept: list[Any] = []
    operation = engine.push_async(lambda done: (kept.append(done), done(1)), name="twice")
    assert operation.wait() == 1
    with pytest.raises(UnisonoError, match=rf"operation twice, pushed at .*{HERE}:\d+, was called a second time"):
        kept[0](2)
    assert operation.wait() == 1


def test_a_dropped_completion_is_reported_with_the_line_of_the_push(engine: Any) -> None:
    A = engine.variable()
    engine.push_async(lambda done: None, mutate=[A], name="lost")
    with pytest.raises(UnisonoError, match="dropped without having been called") as caught:
        engine.wait(A, deadline=20)
    assert "operation lost, pushed at" in caught.value.__notes__[0]
    assert HERE in caught.value.__notes__[0]


def test_an_asynchronous_operation_fails_by_its_start_or_by_its_callback(engine: Any) -> None:
    for start in (lambda done: fail("start")(), lambda done: done(error=ValueError("callback"))):
        with pytest.raises(ValueError, match=r"start|callback"):
            engine.push_async(start).wait(20)


def test_futures_complete_operations(engine: Any) -> None:
    A = engine.variable()
    with ThreadPoolExecutor(1) as pool:
        assert engine.push_async(lambda done: pool.submit(lambda: 3), mutate=[A]).wait(20) == 3
        callback = engine.push_async(lambda done: pool.submit(lambda: 4).add_done_callback(done), mutate=[A])
        assert callback.wait(20) == 4
        with pytest.raises(ValueError, match="bad"):
            engine.push_async(lambda done: pool.submit(fail())).wait(20)
    future: concurrent.futures.Future[int] = concurrent.futures.Future()
    future.cancel()
    future.set_running_or_notify_cancel()
    with pytest.raises(CancelledError):
        engine.push_async(lambda done: future).wait(20)


def test_futures_of_asyncio_complete_operations(engine: Any) -> None:
    async def work() -> int:
        await asyncio.sleep(0.01)
        return 5

    async def main() -> list[Any]:
        loop = asyncio.get_running_loop()
        task = loop.create_task(work())
        one = engine.push_async(lambda done: task)
        other = engine.push_async(lambda done: asyncio.run_coroutine_threadsafe(work(), loop))
        return [await loop.run_in_executor(None, operation.wait, 20) for operation in (one, other)]

    assert asyncio.run(main()) == [5, 5]


def test_a_completion_takes_exceptions_only(engine: Any) -> None:
    for error in ("text", ValueError, 3):
        kept: list[Any] = []
        operation = engine.push_async(kept.append, name="mine")
        while not kept:
            time.sleep(0.001)
        with pytest.raises(ConfigError, match=rf"error is an exception, not .* operation mine, pushed at .*{HERE}:\d+"):
            kept[0](error=error)
        kept.pop()("fine")
        assert operation.wait(20) == "fine"


def test_a_future_that_is_cancelled_is_not_said_to_be_cancelled_before_it_began(engine: Any) -> None:
    future: concurrent.futures.Future[int] = concurrent.futures.Future()
    operation = engine.push_async(lambda done: future, name="mine")
    future.cancel()
    future.set_running_or_notify_cancel()
    with pytest.raises(CancelledError, match=r"operation mine, pushed at .*, was cancelled while it ran"):
        operation.wait(20)


def test_an_exception_that_drops_a_completion_is_not_replaced(engine: Any) -> None:
    kept: list[Any] = []
    operation = engine.push_async(kept.append)
    while not kept:
        time.sleep(0.001)
    with pytest.raises(TypeError, match="Completion"):
        int(kept.pop())
    with pytest.raises(UnisonoError, match="dropped"):
        operation.wait(20)


def test_an_operation_may_be_said_not_to_be_asynchronous(engine: Any) -> None:
    assert engine.push(lambda: 1, asynchronous=False).wait(20) == 1


def test_what_start_raises_after_the_completion_is_reported(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda args: told.append((args.exc_value, args.object)))

    def start(done: Any) -> None:
        done(1)
        fail("too late")()

    operation = engine.push_async(start, name="mine")
    assert operation.wait(20) == 1
    while not told:
        time.sleep(0.001)
    [(error, about)] = told
    assert str(error) == "too late"
    assert f"operation mine, pushed at {operation.where}" == about


def test_a_second_failure_does_not_replace_the_first(engine: Any) -> None:
    kept: list[Any] = []
    operation = engine.push_async(kept.append)
    while not kept:
        time.sleep(0.001)
    kept[0](error=ValueError("first"))
    with pytest.raises(UnisonoError, match="a second time"):
        kept[0](error=ValueError("second"))
    engine.push(lambda: None).wait(20)
    with pytest.raises(ValueError, match="first"):
        operation.wait(20)
