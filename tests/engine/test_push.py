"""What is pushed: functions, tagged data, lists, and what makes no sense."""

import gc
import sys
import threading
import time
import weakref
from functools import partial
from typing import Any

import numpy as np
import pytest

import unisono
from unisono.engine import Engine, Lane, Operation, SerialEngine, Variable
from unisono.errors import ConfigError

HERE = "test_push.py"


def test_it_is_at_the_top_level() -> None:
    assert unisono.Engine is Engine
    assert unisono.SerialEngine is SerialEngine


def test_an_operation_gives_its_result_and_says_what_it_is(engine: Any) -> None:
    operation = engine.push(lambda: 42, name="answer")
    assert operation.wait() == operation.wait(1) == 42
    assert operation.done()
    assert operation.exception() is None
    assert operation.name == "answer"
    assert HERE in operation.where
    assert not operation.cancel()


def test_one_list_can_be_pushed_at_once(engine: Any) -> None:
    seen: list[int] = []
    A = engine.variable()
    operations = engine.push_all([(lambda i=i: seen.append(i), (), [A]) for i in range(100)], priority=3, name="all")
    engine.wait(A)
    assert seen == list(range(100))
    assert {operation.name for operation in operations} == {"all"}


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
    for make in (lambda: engine.variable(3), lambda: engine.lane(3, width=1), lambda: engine.tag(np.zeros(1), 3)):
        with pytest.raises(ConfigError, match="name is a string, not 3"):
            make()


def test_more_arguments_that_make_no_sense(engine: Any) -> None:
    A, lane = engine.variable("A"), engine.lane("nic", bytes=10)
    for options, text in (
        ({"read": A}, "lists of variables, not one"),
        ({"read": 3}, "lists of variables"),
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
            engine.push(lambda: None, **options)
    with pytest.raises(ConfigError, match="takes nothing"):
        engine.lane("nic", width=0)


def test_engines_that_make_no_sense(parallel: Engine) -> None:
    with pytest.raises(ConfigError, match="threads=0"):
        Engine(0)
    with pytest.raises(ConfigError, match="knows no reed"):
        parallel.push(lambda: None, reed=[])  # type: ignore[call-arg]


def test_the_serial_engine_has_the_same_interface(engine: Any) -> None:
    its_own = {"wait_until_idle", "take_failure", "shut", "abandon", "is_here", "line", "live", "log", "mark", "heal"}
    its_own |= {"make_variable", "make_lane", "inside", "ends", "require_here"}  # of the native core
    names = {name for name in dir(Engine) if not name.startswith("_")} - its_own
    assert names <= set(dir(engine)), "all that a program may use of an engine"
    A = engine.variable("A")
    operation = engine.push(lambda: None, mutate=[A])
    for thing, kind in ((operation, Operation), (A, Variable), (engine.lane("nic", width=1), Lane)):
        assert {name for name in dir(kind) if not name.startswith("_")} <= set(dir(thing))


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


def test_threads_that_tag_the_same_data_get_the_same_variable(engine: Any) -> None:
    arrays, found = [np.zeros(1) for _ in range(300)], ([], [])  # type: ignore[var-annotated]
    meeting = threading.Barrier(2)

    def tag(which: int) -> None:
        for array in arrays:
            meeting.wait(20)
            found[which].append(engine.tag(array))

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=tag, args=[which]) for which in (0, 1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert all(one is other for one, other in zip(*found, strict=True))


def test_data_whose_variable_was_deleted_gets_another_one(engine: Any) -> None:
    array = np.zeros(1)
    engine.tag(array, "first").delete()
    with pytest.raises(ConfigError, match="not tagged"):
        engine.push(lambda: None, read=[array])
    assert engine.tag(array, "second").name == "second"
    assert engine.push(lambda: "ran", read=[array]).wait(20) == "ran"


def test_nonsense_is_refused_at_the_call(engine: Any) -> None:
    for use, text in (
        (lambda: engine.variable("\ud800"), "surrogate"),
        (lambda: engine.push(lambda: None, name="\ud800"), "surrogate"),
        (lambda: engine.lane("nic", width=1 << 70), "can be counted"),
        (lambda: engine.push_all(3), "one list"),
        (lambda: engine.push_async(3), "function to call"),
    ):
        with pytest.raises(ConfigError, match=text):
            use()


def test_a_list_with_a_bad_task_says_how_much_of_it_was_pushed(engine: Any) -> None:
    seen: list[int] = []
    for bad, text in (((3,), "function to run"), (3, "list of tuples")):
        with pytest.raises(ConfigError, match=rf"{text}.* \(task 1 of 3, from 0; the 1 before it were pushed\)"):
            engine.push_all([(lambda: seen.append(1),), bad, (lambda: seen.append(2),)])
    engine.wait(deadline=20)
    assert seen == [1, 1]
