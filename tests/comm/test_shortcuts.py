"""Calls that were made before go on without Python: they give what they would have given."""

import gc
import inspect
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.comm.world import LINKS, World

import unisono
from unisono.comm.communicator import Communicator
from unisono.errors import ConfigError, DeadlineExceeded


@pytest.fixture
def alone() -> Communicator:
    return unisono.init(rank=0, size=1)


def times_taken(comm: Communicator) -> int:
    return sum(comm._shortcuts.uses().values())


def on_two_ranks(function: Callable[[Communicator], Any], links: str = "direct") -> list[Any]:
    with World(2, links) as world:
        return world.run(function)


def repeated(comm: Communicator) -> list[float]:
    x, seen = np.ones(5, np.float32), []
    for _ in range(4):
        assert comm.allreduce(x, out=x) is x
        seen.append(float(x[0]))
    assert times_taken(comm) == 3
    return seen


@pytest.mark.parametrize("links", LINKS)
def test_a_call_takes_the_shortcut_from_the_second_time_on(links: str) -> None:
    assert on_two_ranks(repeated, links) == [[2, 4, 8, 16]] * 2


def test_another_array_of_the_same_form_takes_it_too(alone: Communicator) -> None:
    x, y = np.arange(6.0), np.arange(6.0) + 1
    alone.allreduce(x, out=x)
    alone.allreduce(y, out=y)
    assert times_taken(alone) == 1


@pytest.mark.parametrize(
    "other",
    [
        np.ones(7),
        np.ones((2, 3)),
        np.ones(6, np.float32),
        np.ones(6).view(np.recarray),
        np.ones(6, ">f8"),
    ],
    ids=["size", "shape", "type", "class", "byte order"],
)
def test_an_array_of_another_form_does_not(alone: Communicator, other: Any) -> None:
    x = np.ones(6)
    alone.allreduce(x, out=x)
    target = np.zeros(other.shape, other.dtype.newbyteorder("="))
    assert np.array_equal(alone.allreduce(other, out=target), other)
    assert times_taken(alone) == 0


def test_an_operator_of_another_name_is_another_call(alone: Communicator) -> None:
    x = np.ones(3)
    for op in ("sum", "max", "sum", "max"):
        alone.allreduce(x, op, out=x)
    assert times_taken(alone) == 2


def test_what_is_wrong_is_refused_as_ever(alone: Communicator) -> None:
    x = np.ones(6)
    alone.allreduce(x, out=x)
    x.flags.writeable = False
    with pytest.raises(ConfigError, match="read-only"):
        alone.allreduce(x, out=x)
    with pytest.raises(ConfigError, match="not contiguous"):
        alone.allreduce(np.ones(6), out=np.ones(12)[::2])
    with pytest.raises(ConfigError, match="deadline"):
        alone.allreduce(np.ones(6), out=np.ones(6), deadline=-1)
    with pytest.raises(TypeError, match="unexpected keyword"):
        alone.allreduce(np.ones(6), into=x)  # type: ignore[call-arg]


def of_nothing(comm: Communicator) -> list[tuple[int, ...]]:
    shapes = []
    for _ in range(3):
        x = np.empty((0, 2))
        assert comm.allreduce(x, out=x) is x
        shapes += [comm.allreduce(np.empty(0)).shape, comm.allreduce(np.empty(0), out=np.empty(0)).shape]
    return shapes


@pytest.mark.parametrize("links", LINKS)
def test_empty_arrays_are_results_too(links: str) -> None:
    assert on_two_ranks(of_nothing, links) == [[(0,)] * 6] * 2


def overlapping(comm: Communicator) -> list[float]:
    memory = np.arange(8.0)
    for _ in range(3):
        memory[:] = np.arange(8.0)
        comm.allreduce(memory[:6].copy(), out=np.empty(6))
        comm.allreduce(memory[:6], out=memory[2:])
    return memory.tolist()


def test_arrays_that_overlap_are_kept_apart() -> None:
    assert on_two_ranks(overlapping) == [[0, 1, 0, 2, 4, 6, 8, 10]] * 2


def other_deadline(comm: Communicator) -> None:
    x = np.ones(4)
    for _ in range(3):
        comm.allreduce(x, out=x)
    comm.deadline = 0.2
    if comm.rank == 0:
        with pytest.raises(DeadlineExceeded):
            comm.allreduce(x, out=x)


def test_a_new_deadline_holds_for_calls_that_are_known() -> None:
    on_two_ranks(other_deadline)


def in_threads(comm: Communicator) -> float:
    arrays = [np.ones(64, np.float32) for _ in range(3)]

    def work(x: Any) -> None:
        for _ in range(200):
            comm.allreduce(x, "max", out=x)

    threads = [threading.Thread(target=work, args=(x,)) for x in arrays]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return float(sum(x.sum() for x in arrays))


def test_threads_take_shortcuts_at_the_same_time() -> None:
    assert on_two_ranks(in_threads) == [192.0, 192.0]


def started(comm: Communicator) -> list[float]:
    x, seen = np.ones(3), []
    for _ in range(4):
        assert comm.start("allreduce", x, out=x).wait() is x
        seen.append(float(x[0]))
    assert times_taken(comm) == 3
    several = [comm.start("allreduce", np.full(3, float(i)), out=np.empty(3)) for i in range(20)]
    return seen + [float(handle.wait()[0]) for handle in several]


def test_started_calls_take_it_too_in_their_order() -> None:
    assert on_two_ranks(started) == [[2, 4, 8, 16, *(2.0 * i for i in range(20))]] * 2


def test_a_communicator_that_nobody_knows_any_more_goes(alone: Communicator) -> None:
    comm = unisono.init(rank=0, size=1)
    x = np.ones(3)
    for _ in range(2):
        comm.allreduce(x, out=x)
    gone = weakref.ref(comm)
    del comm
    gc.collect()
    assert gone() is None


def test_a_closed_communicator_makes_no_more_calls(alone: Communicator) -> None:
    x = np.ones(3)
    for _ in range(2):
        alone.allreduce(x, out=x)
    alone.close()
    with pytest.raises(ConfigError, match="closed"):
        alone.allreduce(x, out=x)


def test_methods_say_what_they_are(alone: Communicator) -> None:
    assert inspect.signature(Communicator.allreduce).parameters["out"].kind is inspect.Parameter.KEYWORD_ONLY
    assert (Communicator.allreduce.__doc__ or "").startswith("Reduce x over all ranks")
    assert Communicator.allreduce.__name__ == "allreduce"
    assert alone.allreduce.__self__ is alone  # type: ignore[attr-defined]


def test_the_line_of_each_call_is_known(alone: Communicator) -> None:
    x = np.ones(3)
    for _ in range(2):
        alone.allreduce(x, out=x)
    alone.allreduce(x, out=x)
    first, second, third = (call["where"] for call in alone.stats()["recent"])
    assert first == second
    assert first != third
    assert "test_shortcuts.py" in third


def test_ever_new_arguments_are_not_all_kept(alone: Communicator) -> None:
    x = np.ones(3)
    for i in range(100):
        alone.allreduce(x, out=x, deadline=100.0 + i)
    assert times_taken(alone) == 0
    alone.allreduce(x, out=x, deadline=100.0)
    assert times_taken(alone) == 1
