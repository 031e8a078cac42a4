"""What an engine promises, one thing at a time."""

import asyncio
import concurrent.futures
import gc
import threading
import time
import traceback
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import pytest

import unisono
from unisono.engine import Engine, SerialEngine, copy, nothing, reduce
from unisono.errors import ConfigError, DeadlineExceeded, UnisonoError

HERE = "test_engine.py"
Kind = type[Engine] | type[SerialEngine]


@pytest.fixture(params=[Engine, SerialEngine])
def engine(request: pytest.FixtureRequest) -> Iterator[Any]:
    with request.param(3) as engine:
        yield engine


@pytest.fixture
def parallel() -> Iterator[Engine]:
    with Engine(3) as engine:
        yield engine


def fail(text: str = "bad") -> Callable[[], None]:
    def body() -> None:
        raise ValueError(text)

    return body


class Gate:
    """An operation that runs until it is opened."""

    def __init__(self) -> None:
        self.entered, self._open = threading.Event(), threading.Event()

    def __call__(self) -> None:
        self.entered.set()
        assert self._open.wait(20)

    def open(self) -> None:
        self._open.set()


def test_it_is_at_the_top_level() -> None:
    assert unisono.Engine is Engine
    assert unisono.SerialEngine is SerialEngine


def test_the_lectures_program(engine: Any) -> None:
    values: dict[str, int] = {}
    A, B, D = (engine.variable(name) for name in "ABD")
    engine.push(lambda: values.update(A=2), mutate=[A])
    engine.push(lambda: values.update(B=values["A"] + 1), read=[A], mutate=[B])
    engine.push(lambda: values.update(D=values["A"] * values["B"]), read=[A, B], mutate=[D])
    engine.wait(D)
    assert values["D"] == 6


def test_an_operation_gives_its_result_and_says_what_it_is(engine: Any) -> None:
    operation = engine.push(lambda: 42, name="answer")
    assert operation.wait() == operation.wait(1) == 42
    assert operation.done()
    assert operation.exception() is None
    assert operation.name == "answer"
    assert HERE in operation.where
    assert not operation.cancel()


def test_readers_run_at_the_same_time(parallel: Engine) -> None:
    A, meeting = parallel.variable("A"), threading.Barrier(3)
    for operation in [parallel.push(lambda: meeting.wait(20), read=[A]) for _ in range(3)]:
        operation.wait(20)


def test_one_list_can_be_pushed_at_once(engine: Any) -> None:
    seen: list[int] = []
    A = engine.variable()
    operations = engine.push_all([(lambda i=i: seen.append(i), (), [A]) for i in range(100)], priority=3, name="all")
    engine.wait(A)
    assert seen == list(range(100))
    assert {operation.name for operation in operations} == {"all"}


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


@pytest.mark.parametrize(
    "lists", [("AA", "", ""), ("A", "A", ""), ("", "AA", ""), ("A", "", "A"), ("", "A", "A"), ("", "", "AA")]
)
def test_a_variable_may_be_named_twice(engine: Any, lists: tuple[str, str, str]) -> None:
    A, seen = engine.variable("A"), []
    for i in range(50):
        engine.push(lambda i=i: seen.append(i), *([A for _ in each] for each in lists))
    engine.wait(A)
    assert sorted(seen) == list(range(50))
    if lists not in (("AA", "", ""), ("", "", "AA")):
        assert seen == list(range(50)), "it is mutated, so they keep their order"


def test_many_variables_in_one_operation(engine: Any) -> None:
    variables, seen = [engine.variable() for _ in range(300)], []
    for i in range(20):
        engine.push(lambda i=i: seen.append(i), read=variables[:200], mutate=variables[100:])
    engine.wait(*variables)
    assert seen == list(range(20))


def test_data_is_its_variable_when_it_is_tagged(engine: Any) -> None:
    array, other = np.zeros(3), np.zeros(3)
    A = engine.tag(array, "array")
    assert engine.tag(array) is A
    engine.push(partial(np.add, array, 1, array), mutate=[array])
    engine.push(partial(np.multiply, array, 3, array), mutate=[A])
    engine.wait(array)
    assert array.tolist() == [3, 3, 3]
    with pytest.raises(ConfigError, match="not tagged"):
        engine.push(lambda: None, read=[other])
    with pytest.raises(ConfigError, match="cannot be tagged"):
        engine.tag([1, 2])
    gone = weakref.ref(array)
    del array, A
    gc.collect()
    assert gone() is None, "a tag does not keep its data"


def test_arguments_that_make_no_sense(engine: Any) -> None:
    with pytest.raises(ConfigError, match="function to run"):
        engine.push(3)
    with pytest.raises(ConfigError, match="belongs to another engine"):
        engine.push(lambda: None, read=[type(engine)(1).variable("x")])
    with pytest.raises(ConfigError, match="has a width=, in operations, or bytes="):
        engine.lane("nic")


def test_more_arguments_that_make_no_sense(parallel: Engine) -> None:
    A, lane = parallel.variable("A"), parallel.lane("nic", bytes=10)
    for options, text in (
        ({"read": A}, "lists of variables, not one"),
        ({"read": 3}, "lists of variables"),
        ({"reed": [A]}, "knows no reed"),
        ({"priority": "high"}, "whole number"),
        ({"name": 3}, "name is a string"),
        ({"lane": A}, r"what engine.lane\(\) made"),
        ({"lane": lane}, "say how many"),
        ({"lane": lane, "bytes": 11}, "never fit"),
        ({"lane": lane, "bytes": -1}, "from 0 up"),
        ({"lane": [lane, lane], "bytes": 1}, "given twice"),
        ({"bytes": 1}, "for a lane"),
    ):
        with pytest.raises(ConfigError, match=text):
            parallel.push(lambda: None, **options)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="threads=0"):
        Engine(0)
    with pytest.raises(ConfigError, match="takes nothing"):
        parallel.lane("nic", width=0)


def test_operations_are_called_what_they_run(parallel: Engine) -> None:
    class Callable:
        def __call__(self) -> None: ...

        def method(self) -> None: ...

        def __getattr__(self, name: str) -> None:
            raise AssertionError(f"nobody is to ask for {name}")

    thing = Callable()
    for body, name in ((thing, "Callable"), (thing.method, "method"), (time.time, "time"), (partial(int), "partial")):
        operation = parallel.push(body)
        assert name in operation.name or operation.done()
        operation.wait(20)
    for deadline in (-1, float("nan"), float("inf"), "soon"):
        with pytest.raises(ConfigError, match="number of seconds"):
            parallel.push(lambda: time.sleep(0.05)).wait(deadline)  # type: ignore[arg-type]


def test_lanes_take_so_many_at_once(parallel: Engine) -> None:
    wide, heavy = parallel.lane("nic", width=2), parallel.lane("memory", bytes=100)
    lock, inside, most = threading.Lock(), [0, 0], [0, 0]

    def body(nbytes: int) -> None:
        with lock:
            for i, amount in enumerate((1, nbytes)):
                inside[i] += amount
                most[i] = max(most[i], inside[i])
        time.sleep(0.001)
        with lock:
            inside[0] -= 1
            inside[1] -= nbytes

    for i in range(40):
        nbytes = (60, 40, 100, 0)[i % 4]
        parallel.push(lambda nbytes=nbytes: body(nbytes), lane=[wide, heavy], bytes=nbytes)
    parallel.wait(deadline=20)
    assert most[0] == 2
    assert most[1] == 100


def test_those_that_accumulate_take_turns_in_any_order(parallel: Engine) -> None:
    A, B, gate, seen = parallel.variable("A"), parallel.variable("B"), Gate(), []
    parallel.push(gate, mutate=[B])
    parallel.push(lambda: seen.append("late"), read=[B], accumulate=[A])
    parallel.push(lambda: seen.append("early"), accumulate=[A]).wait(20)
    assert seen == ["early"], "it does not wait for one that was pushed before it"
    after = parallel.push(lambda: list(seen), read=[A])
    gate.open()
    assert after.wait(20) == ["early", "late"]


# Failure


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
        with pytest.raises(CancelledError, match=rf"pushed at .*{HERE}:\d+, was cancelled"):
            operation.wait(20)
    parallel.wait(A, deadline=20)
    assert ran == []
    assert "cancelled" in repr(second)


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


# Asynchronous operations


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


def test_futures_of_asyncio_complete_operations(parallel: Engine) -> None:
    async def work() -> int:
        await asyncio.sleep(0.01)
        return 5

    async def main() -> list[Any]:
        loop = asyncio.get_running_loop()
        task = loop.create_task(work())
        one = parallel.push_async(lambda done: task)
        other = parallel.push_async(lambda done: asyncio.run_coroutine_threadsafe(work(), loop))
        return [await loop.run_in_executor(None, operation.wait, 20) for operation in (one, other)]

    assert asyncio.run(main()) == [5, 5]


# Waiting


def test_a_wait_may_have_a_deadline(parallel: Engine) -> None:
    gate, A = Gate(), parallel.variable("A")
    operation = parallel.push(gate, mutate=[A])
    for wait in (
        lambda: operation.wait(0.05), lambda: operation.wait(deadline=0.05),
        lambda: parallel.wait(A, deadline=0.05), lambda: parallel.wait(deadline=0.05),
    ):  # fmt: skip
        with pytest.raises(DeadlineExceeded, match=r"0\.0\d* s"):
            wait()
    gate.open()
    parallel.wait(A)


def test_a_wait_inside_lets_others_run_with_one_thread() -> None:
    with Engine(1) as single:
        A, seen = single.variable("A"), []

        def outer(depth: int) -> None:
            if depth < 20:
                single.push(lambda: outer(depth + 1)).wait(20)
            seen.append(depth)

        single.push(lambda: outer(0), mutate=[A]).wait(20)
        assert seen == list(range(20, -1, -1))


def test_a_wait_inside_that_would_never_end_raises(parallel: Engine) -> None:
    A, B, lane = parallel.variable("A"), parallel.variable("B"), parallel.lane("one", width=1)

    def outer() -> list[str]:
        parallel.push(lambda: None, read=[A], mutate=[B])
        texts = []
        for wait in (
            lambda: parallel.wait(A), lambda: parallel.wait(B), parallel.wait,
            lambda: parallel.push(lambda: None, lane=lane).wait(),
        ):  # fmt: skip
            with pytest.raises(ConfigError, match="wait for itself") as caught:
                wait()
            texts.append(str(caught.value))
        return texts

    texts = parallel.push(outer, mutate=[A], lane=lane, name="outer").wait(20)
    assert all("operation outer waits" in text for text in texts)
    parallel.wait(B)


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


# Native operations


def test_native_operations(engine: Any) -> None:
    x, y, z = np.arange(4.0), np.zeros(4), np.zeros(4)
    X, Y, Z = engine.tag(x), engine.tag(y), engine.tag(z)
    engine.push(copy(x, out=y), read=[X], mutate=[Y])
    engine.push(nothing, read=[Y], mutate=[X])
    engine.push(reduce(x, y, x, out=z), read=[X, Y], mutate=[Z])
    engine.push(reduce(z, y, op="max", out=z), read=[Y], mutate=[Z], name="largest")
    engine.wait(Z)
    assert z.tolist() == [0, 3, 6, 9]
    with pytest.raises(ConfigError, match="elements"):
        copy(x, out=np.zeros(3))
    with pytest.raises(ConfigError, match="two arrays"):
        reduce(x, out=x)
    with pytest.raises(ConfigError, match="no operator"):
        reduce(x, x, out=x, op="xor")


def test_a_native_operation_keeps_its_arrays_until_it_has_run(parallel: Engine) -> None:
    gate, A, out = Gate(), parallel.variable("A"), np.zeros(100_000)
    parallel.push(gate, mutate=[A])
    x = np.ones(100_000)
    kept = weakref.ref(x)
    parallel.push(copy(x, out=out), mutate=[A])
    del x
    gc.collect()
    assert kept() is not None
    gate.open()
    parallel.wait(A)
    assert out.sum() == 100_000
    deadline = time.monotonic() + 20
    while kept() is not None and time.monotonic() < deadline:
        time.sleep(0.001)
    assert kept() is None, "nobody has to push or wait for it to be let go of"


# The end


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
    threading.Timer(0.05, gate.open).start()
    engine.close(cancel=True)
    assert ran == []
    with pytest.raises(CancelledError):
        late.wait(1)


def test_an_engine_that_is_forgotten_ends() -> None:
    def use() -> weakref.ref[Engine]:
        engine = Engine(2)
        for _ in range(100):
            engine.push(lambda: time.sleep(0.0001))
        return weakref.ref(engine)

    threads = threading.active_count()
    gone = [use() for _ in range(20)]
    gc.collect()
    assert all(reference() is None for reference in gone)
    deadline = time.monotonic() + 20
    while threading.active_count() > threads and time.monotonic() < deadline:
        time.sleep(0.01)


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
