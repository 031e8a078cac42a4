"""Waits: with deadlines, and inside of operations."""

import threading
import time
from typing import Any

import pytest
from tests.engine.bodies import Gate, fail

from unisono.engine import Engine, SerialEngine
from unisono.errors import ConfigError, DeadlineExceeded


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


@pytest.mark.parametrize("kind", [Engine, SerialEngine])
def test_a_wait_inside_lets_others_run_with_one_thread(kind: Any) -> None:
    with kind(1) as single:
        A, seen = single.variable("A"), []

        def outer(depth: int) -> None:
            if depth < 20:
                single.push(lambda: outer(depth + 1)).wait(20)
            seen.append(depth)

        single.push(lambda: outer(0), mutate=[A]).wait(20)
        assert seen == list(range(20, -1, -1))


def test_a_wait_inside_that_would_never_end_raises(engine: Any) -> None:
    A, B, lane = engine.variable("A"), engine.variable("B"), engine.lane("one", width=1)

    def outer() -> list[str]:
        engine.push(lambda: None, read=[A], mutate=[B])
        texts = []
        for wait in (
            lambda: engine.wait(A), lambda: engine.wait(B), engine.wait,
            lambda: engine.push(lambda: None, lane=lane).wait(),
        ):  # fmt: skip
            with pytest.raises(ConfigError, match="wait for itself") as caught:
                wait()
            texts.append(str(caught.value))
        return texts

    texts = engine.push(outer, mutate=[A], lane=lane, name="outer").wait(20)
    assert all("operation outer waits" in text for text in texts)
    engine.wait(B)


def test_a_wait_inside_runs_what_comes_before(engine: Any) -> None:
    A, B, seen = engine.variable("A"), engine.variable("B"), []

    def outer() -> None:
        engine.push(lambda: seen.append("first"), mutate=[B])
        engine.push(lambda: seen.append("later"), mutate=[A])
        engine.push(lambda: seen.append("second"), mutate=[B])
        engine.wait(B, deadline=20)
        seen.append("outer")

    engine.push(outer, mutate=[A])
    engine.wait(A, deadline=20)
    assert seen == ["first", "second", "outer", "later"]


def test_a_wait_for_what_is_never_completed_has_an_end(engine: Any) -> None:
    kept: list[Any] = []
    A = engine.variable("A")
    first = engine.push_async(kept.append, mutate=[A], name="first")
    second = engine.push(lambda: "ran", read=[A])
    while not kept:
        time.sleep(0.001)
    for wait in (lambda: first.wait(0.05), lambda: second.wait(0.05), lambda: engine.wait(deadline=0.05)):
        with pytest.raises(DeadlineExceeded, match=r"0\.05 s"):
            wait()
    kept.pop()()
    assert second.wait(20) == "ran"


def test_a_wait_inside_for_one_behind_another_that_never_fits_has_an_end(engine: Any) -> None:
    lane = engine.lane("memory", bytes=100)

    def outer() -> str:
        engine.push(lambda: None, lane=lane, bytes=60, name="large")
        try:
            return str(engine.push(lambda: "ran", lane=lane, bytes=10, name="small").wait())
        except ConfigError as error:
            return str(error)

    answer = engine.push(outer, lane=lane, bytes=50, name="outer").wait(20)
    assert answer == "ran" or answer.startswith("operation outer waits for operation small: it would wait for itself")


@pytest.mark.parametrize(("room", "options"), [({"width": 2}, {}), ({"bytes": 100}, {"bytes": 50})])
def test_who_shares_a_lane_and_waits_for_one_more_that_needs_it_is_told(engine: Any, room: Any, options: Any) -> None:
    lane = engine.lane("shared", **room)

    def inner() -> Any:
        return engine.push(lambda: None, lane=lane, name="third", **options).wait()

    outer = engine.push(lambda: engine.push(inner, lane=lane, name="inner", **options).wait(), lane=lane, **options)
    with pytest.raises(ConfigError, match=r"waits for operation (inner|third): it would wait for itself"):
        outer.wait(20)


@pytest.mark.parametrize("kind", [Engine, SerialEngine])
def test_a_wait_inside_for_another_engine_lends_its_place_to_others(kind: Any) -> None:
    with kind(1) as one, kind(1) as other:

        def inner() -> str:
            return str(one.push(lambda: "deep").wait(20))

        assert one.push(lambda: other.push(inner).wait(20)).wait(20) == "deep"
        assert one.push(lambda: (other.push(inner), other.wait(deadline=20))[1]).wait(20) is None


def test_a_circle_of_waits_over_two_engines_raises() -> None:
    with Engine(1) as one, Engine(1) as other:
        A = one.variable("A")

        def inner() -> None:
            one.wait(A)

        outer = one.push(lambda: other.push(inner, name="inner").wait(), mutate=[A])
        # Whoever comes to its wait last is told.
        with pytest.raises(ConfigError, match=r"waits for operation (wait|inner): it would wait for itself"):
            outer.wait(20)
        all_of_it = one.push(lambda: other.push(one.wait, name="all").wait())
        with pytest.raises(ConfigError, match=r"waits for (all|operation all): it would wait for itself"):
            all_of_it.wait(20)
        one.restore(A)


def test_a_wait_does_not_keep_what_is_pushed_later(parallel: Engine) -> None:
    A, gate = parallel.variable("A"), Gate()
    parallel.push(gate, read=[A])
    with pytest.raises(DeadlineExceeded):
        parallel.wait(A, deadline=0.02)
    assert parallel.push(lambda: "read", read=[A]).wait(20) == "read"
    gate.open()


def test_a_wait_of_another_thread_does_not_forbid_a_wait_inside(parallel: Engine) -> None:
    A, go = parallel.variable("A"), threading.Event()
    reader = parallel.push(lambda: (go.wait(20), parallel.push(lambda: "inside", read=[A]).wait(20))[1], read=[A])
    waiter = threading.Thread(target=parallel.wait, args=[A])
    waiter.start()
    while parallel.outstanding < 2:
        time.sleep(0.001)
    go.set()
    assert reader.wait(20) == "inside"
    waiter.join(20)


def test_a_wait_does_not_split_a_run_of_those_that_accumulate(engine: Any) -> None:
    A = engine.variable("A")
    bad = engine.push(fail(), accumulate=[A])
    with pytest.raises(ValueError, match="bad"):
        engine.wait(A)
    assert bad.done()
    assert engine.push(lambda: "ran", accumulate=[A]).wait(20) == "ran"


def test_a_late_wait_for_a_variable_says_where_it_is_and_what_it_waits_for(engine: Any) -> None:
    kept: list[Any] = []
    A = engine.variable("A")
    engine.push_async(kept.append, mutate=[A], name="slow")
    while not kept:
        time.sleep(0.001)
    here = r"/\S*test_waits\.py:\d+"
    with pytest.raises(DeadlineExceeded, match=rf"pushed on A before the wait at {here} was not through after 0\.05 s: "
                       rf"slow, pushed at {here}, runs; it goes on"):  # fmt: skip
        engine.wait(A, deadline=0.05)
    kept.pop()()


def test_variables_and_lanes_of_another_engine_are_refused(engine: Any) -> None:
    with type(engine)(1) as other:
        foreign, lane = other.variable("foreign"), other.lane("nic", width=1)
        for use in (lambda: engine.wait(foreign), lambda: engine.restore(foreign)):
            with pytest.raises(ConfigError, match="variable foreign belongs to another engine"):
                use()
        with pytest.raises(ConfigError, match="lane nic belongs to another engine"):
            engine.push(lambda: None, lane=lane)
        assert (engine.outstanding, other.outstanding) == (0, 0)


def test_a_deleted_variable_can_be_awaited_and_not_restored(engine: Any) -> None:
    A, seen = engine.variable("A"), []
    engine.push(lambda: seen.append(1), mutate=[A])
    A.delete()
    engine.wait(A)
    assert seen == [1]
    with pytest.raises(ConfigError, match="variable A was deleted"):
        engine.restore(A)


def test_a_wait_for_a_failed_variable_leaves_the_others_whole(engine: Any) -> None:
    A, B = engine.variable("A"), engine.variable("B")
    engine.push(fail(), mutate=[A])
    with pytest.raises(ValueError, match="bad"):
        engine.wait(A, B)
    assert engine.push(lambda: "ran", read=[B]).wait(20) == "ran"
