"""The end of a communicator: closed, twice, in the middle, or forgotten. Nothing is left, and nobody hangs."""

from __future__ import annotations

import gc
import os
import threading
import time
import weakref

import numpy as np
import pytest
from tests.comm.world import World

from unisono.comm.communicator import Communicator
from unisono.errors import ConfigError

CALLS = ("allreduce", "broadcast", "reduce", "scan", "allgather", "allgatherv", "gather", "gatherv", "alltoall")


def open_descriptors() -> int:
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


def threads_of_ours() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("unisono")]


def test_every_use_after_close_says_that_it_is_closed() -> None:
    with World.joined(1, allow_pickle=True) as world:
        comm = world.ranks[0]
    comm.close()
    assert "closed" in repr(comm)
    for name in CALLS:
        with pytest.raises(ConfigError, match="this communicator is closed"):
            getattr(comm, name)(np.ones(1))
    for use in (
        comm.barrier,
        comm.stats,
        comm.duplicate,
        lambda: comm.split(0),
        lambda: comm.scatter(np.ones(1)),
        lambda: comm.reduce_scatter(np.ones(1)),
        lambda: comm.broadcast_object(1),
        lambda: comm.start("barrier"),
    ):
        with pytest.raises(ConfigError, match="this communicator is closed"):
            use()


def test_close_lets_the_calls_under_way_end_first() -> None:
    arrays = [np.full(100_000, rank + 1.0) for rank in range(2)]

    def start_and_close(comm: Communicator) -> list[bool]:
        x = arrays[comm.rank]
        handles = [comm.start("allreduce", x, "max", out=x) for _ in range(10)]
        comm.close()
        return [handle.done() for handle in handles]

    with World(2) as world:
        assert world.run(start_and_close) == [[True] * 10] * 2
    assert [float(x.min()) for x in arrays] == [2.0, 2.0]
    assert threads_of_ours() == []


def test_a_communicator_may_be_closed_while_another_thread_is_in_a_call() -> None:
    with World(2) as world:
        first, second = world.ranks
        results: list[list[int]] = []
        caller = threading.Thread(target=lambda: results.append(first.allreduce([1])))
        caller.start()
        closer = threading.Thread(target=first.close)
        while not first.stats()["recent"]:
            assert caller.is_alive()
        closer.start()
        assert second.allreduce([1]) == [2]
        caller.join(20)
        closer.join(20)
        assert results == [[2]]
        assert "closed" in repr(first)


@pytest.mark.parametrize("links", ["auto", "tcp"])
@pytest.mark.parametrize("ending", ["closed", "forgotten", "forgotten with handles"])
def test_nothing_is_left_of_a_communicator(links: str, ending: str) -> None:
    World.joined(3, links).__exit__()  # whatever is opened only once
    before = open_descriptors()
    for _ in range(3):
        world = World.joined(3, links)
        assert world.run(lambda comm: comm.allreduce([1])) == [[3]] * 3
        assert open_descriptors() > before
        if ending == "forgotten with handles":
            for handle in [comm.start("allreduce", [1]) for comm in world.ranks]:
                assert handle.wait(20) == [3]
            del handle
        if ending == "closed":
            world.__exit__()
        gone = [weakref.ref(comm) for comm in world.ranks]
        del world
        deadline = time.monotonic() + 20
        while open_descriptors() != before:  # the thread of the handles lets go of the last call after it is done
            assert time.monotonic() < deadline
        assert [ref() for ref in gone] == [None] * 3


def test_a_forgotten_communicator_with_a_call_under_way_ends_after_the_call() -> None:
    with World(2, deadline=10) as world:
        handle = world.ranks[0].start("allreduce", [1])
        world.ranks[0] = world.ranks[1]
        gc.collect()
        assert world.ranks[1].allreduce([1]) == [2]
        assert handle.wait(30) == [2]
