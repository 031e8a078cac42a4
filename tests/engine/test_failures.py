"""What becomes of failures, and of what depends on them."""

import time
import traceback
from concurrent.futures import CancelledError
from typing import Any

import pytest
from tests.engine.bodies import Gate, fail

from unisono.engine import Engine, SerialEngine

HERE = "test_failures.py"


def test_an_exception_reaches_what_depends_on_it_with_its_traceback_and_the_line_of_its_push(engine: Any) -> None:
    A, B, C = (engine.variable(name) for name in "ABC")
    ran = []
    engine.push(fail("the cause"), mutate=[A], name="first")
    engine.push(lambda: ran.append("B"), read=[A], mutate=[B])
    other = engine.push(lambda: "fine", mutate=[C])
    last = engine.push(lambda: ran.append("last"), mutate=[C, B])
    for wait in (lambda: engine.wait(A), lambda: engine.wait(B), last.wait, lambda: engine.wait(C)):
        with pytest.raises(ValueError, match="the cause") as caught:
            wait()
        text = "".join(traceback.format_exception(caught.value))
        assert "in body" in text, "the traceback of the operation"
        assert "operation first, pushed at " in text
        assert text.count("in body") == 1
    assert HERE in caught.value.__notes__[0]
    assert len(caught.value.__notes__) == 1
    assert str(last.exception()) == "the cause"
    assert other.wait() == "fine"
    assert ran == []
    engine.restore(A, B, C)
    engine.push(lambda: ran.append("again"), mutate=[A, B, C])
    engine.wait(A, B, C)
    assert ran == ["again"]


def test_a_failure_that_nobody_waited_for_is_raised_at_the_end() -> None:
    for kind in (Engine, SerialEngine):
        with pytest.raises(ValueError, match="unseen"), kind(1) as engine:
            engine.push(fail("unseen"))


def test_failures_are_told_once_by_a_wait_for_all_in_the_order_of_pushes(engine: Any) -> None:
    operations = [engine.push(fail(f"number {i}")) for i in range(4)]
    while not all(operation.done() for operation in operations):
        time.sleep(0.001)
    assert str(operations[1].exception()) == "number 1"
    for number in (0, 2, 3):
        with pytest.raises(ValueError, match=f"number {number}"):
            engine.wait()
    engine.wait()


def test_an_error_in_the_block_is_not_hidden_by_that_of_an_operation() -> None:
    def block() -> None:
        with Engine(1) as engine:
            engine.push(fail("the operation's"))
            raise KeyError("the block's")

    with pytest.raises(KeyError, match="the block's"):
        block()


def test_those_that_accumulate_do_not_see_each_others_failures(engine: Any) -> None:
    A, total = engine.variable("A"), []
    engine.push(lambda: total.append(1), accumulate=[A])
    bad = engine.push(fail(), accumulate=[A])
    with pytest.raises(ValueError, match="bad"):
        bad.wait()
    assert engine.push(lambda: total.append(1), accumulate=[A]).wait() is None
    assert total == [1, 1]
    for uses in ({"read": [A]}, {"mutate": [A]}):
        with pytest.raises(ValueError, match="bad"):
            engine.push(lambda: None, **uses).wait()


def test_exceptions_that_are_no_errors_are_kept_too(parallel: Engine) -> None:
    def leave() -> None:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        parallel.push(leave).wait(20)


# Cancellation and deletion


def test_what_is_cancelled_does_not_run_nor_what_depends_on_it(parallel: Engine) -> None:
    A, B, gate, ran = parallel.variable("A"), parallel.variable("B"), Gate(), []
    first = parallel.push(gate, mutate=[A])
    second = parallel.push(lambda: ran.append(2), read=[A], mutate=[B], name="second")
    third = parallel.push(lambda: ran.append(3), read=[B])
    assert gate.entered.wait(20)
    assert not first.cancel(), "it has begun"
    assert second.cancel()
    assert not second.cancel()
    gate.open()
    for operation in (second, third):
        with pytest.raises(CancelledError, match=rf"operation second, pushed at .*{HERE}:\d+, was cancelled before"):
            operation.wait(20)
    parallel.wait(A, deadline=20)
    assert ran == []
    assert "cancelled" in repr(second)


def test_what_is_cancelled_does_not_wait_for_a_lane(parallel: Engine) -> None:
    lane, gate = parallel.lane("memory", bytes=100), Gate()
    parallel.push(gate, lane=lane, bytes=50)
    assert gate.entered.wait(20)
    large = parallel.push(lambda: None, lane=lane, bytes=60)
    small = parallel.push(lambda: "ran", lane=lane, bytes=50)
    assert large.cancel()
    with pytest.raises(CancelledError):
        large.wait(20)
    assert small.wait(20) == "ran", "which was behind it"
    gate.open()


def test_the_serial_engine_cancels_what_waits() -> None:
    engine, kept, ran = SerialEngine(), [], []
    A = engine.variable("A")
    engine.push_async(kept.append, mutate=[A])
    second = engine.push(lambda: ran.append(2), mutate=[A], name="second")
    third = engine.push(lambda: ran.append(3), read=[A])
    assert second.cancel()
    assert not second.cancel()
    kept.pop()()
    for operation in (second, third):
        with pytest.raises(CancelledError, match=rf"operation second, pushed at .*{HERE}:\d+, was cancelled"):
            operation.wait(20)
    engine.close()
    assert ran == []
