"""Several threads of a process that communicate."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from tests.comm.world import LINKS, World

from unisono.comm.communicator import Communicator


def at_once(*functions: Callable[[], None]) -> None:
    """All run in threads of their own; the first error is raised."""
    errors: list[BaseException] = []

    def guarded(function: Callable[[], None]) -> None:
        try:
            function()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(function,)) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    if errors:
        raise errors[0]


def test_calls_of_several_threads_take_turns() -> None:
    """Threads of a rank may call at once if it does not matter in which order: all sum the same."""
    with World(2) as world:
        sums: list[float] = []

        def caller(comm: Communicator) -> None:
            for _ in range(50):
                sums.append(float(comm.allreduce(np.ones(100))[0]))

        at_once(*(partial(caller, comm) for comm in world.ranks for _ in range(3)))
        assert sums == [2.0] * 300


@pytest.mark.parametrize("links", LINKS)
@pytest.mark.parametrize("name", ["allgatherv", "allgather_object"])
def test_a_call_of_several_messages_is_not_mixed_with_those_of_other_threads(name: str, links: str) -> None:
    """The counts of allgatherv travel before its rows: nothing of another thread may come in between."""
    with World(2, links, allow_pickle=True) as world:

        def caller(comm: Communicator) -> None:
            for turn in range(20):
                value = np.arange(5)
                result = comm.start(name, value).wait() if turn % 3 == 0 else getattr(comm, name)(value)
                np.testing.assert_array_equal(np.ravel(result), [*range(5), *range(5)])

        at_once(*(partial(caller, comm) for comm in world.ranks for _ in range(3)))


def test_threads_with_a_communicator_each_do_not_wait_for_each_other() -> None:
    worlds = [World(2) for _ in range(3)]
    try:
        held = threading.Event()

        def late(comm: Communicator) -> None:
            assert held.wait(20)
            comm.barrier()

        def busy(comm: Communicator) -> None:
            for _ in range(50):
                assert comm.allreduce([1]) == [2]
            if comm is worlds[2].ranks[0]:
                held.set()

        at_once(
            worlds[0].ranks[0].barrier,
            partial(late, worlds[0].ranks[1]),
            *(partial(busy, comm) for world in worlds[1:] for comm in world.ranks),
        )
    finally:
        for world in worlds:
            world.__exit__()


def test_two_communicators_progress_independently() -> None:
    with World(2) as first, World(2) as second:
        held = first.ranks[0].start("allreduce", np.ones(4))
        assert second.run(lambda comm: comm.allreduce([1])) == [[2], [2]]
        assert not held.done()
        first.ranks[1].allreduce(np.ones(4))
        assert held.wait(30).tolist() == [2, 2, 2, 2]
