"""Calls that go on by themselves: order, waiting, awaiting, errors."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest
from tests.comm.world import LINKS, World

from unisono.comm.communicator import Communicator
from unisono.comm.handle import Handle
from unisono.errors import ConfigError, DeadlineExceeded


def test_started_calls_go_on_while_python_computes_and_keep_their_order() -> None:
    def many(comm: Communicator) -> list[float]:
        handles = [comm.start("allreduce", np.full(10_000, i + comm.rank, np.float64)) for i in range(20)]
        last = comm.allreduce(np.full(3, 100.0))  # a blocking call comes after those that were started
        assert all(handle.done() for handle in handles)
        return [float(handle.wait()[0]) for handle in handles] + [float(last[0])]

    with World(3) as world:
        right = [3.0 * i + 3 for i in range(20)] + [300.0]
        assert world.run(many) == [right] * 3


@pytest.mark.parametrize("links", LINKS)
def test_hundreds_of_calls_of_every_kind_may_be_under_way(links: str) -> None:
    def many(comm: Communicator) -> list[Any]:
        handles = []
        for i in range(60):
            handles += [
                comm.start("allreduce", [i]),
                comm.start("allgatherv", np.full(comm.rank, i)),
                comm.start("scan", [1]),
                comm.start("alltoallv", np.arange(3), [1, 1, 1]),
                comm.start("barrier"),
            ]
        return [np.asarray(handle.wait(), object).tolist() for handle in reversed(handles)]

    right = [[[3 * i], [i] * 3, None, None, None] for i in reversed(range(60))]
    with World(3, links) as world:
        for rank, results in enumerate(world.run(many)):
            for number, (total, joined, *_) in enumerate(right):
                barrier, parts, prefix, ragged, reduced = results[5 * number : 5 * number + 5]
                assert (barrier, parts, prefix) == (None, [rank] * 3, [rank + 1])
                assert (ragged, reduced) == (joined, total)


def test_a_handle_can_be_awaited_and_waited_for() -> None:
    async def on_all(world: World) -> list[int]:
        return [int((await handle)[0]) for handle in [comm.start("allreduce", [1, 2]) for comm in world.ranks]]

    with World(2) as world:
        assert asyncio.run(on_all(world)) == [2, 2]
        handle = world.ranks[0].start("barrier")
        with pytest.raises(DeadlineExceeded, match="barrier was not through"):
            handle.wait(0.05)
        assert not handle.done()
        world.ranks[1].barrier()
        handle.wait(30)
        assert "done" in repr(handle)


def test_a_handle_can_be_waited_for_again_and_again() -> None:
    with World(2) as world:
        handle = world.ranks[0].start("allreduce", [1])
        for _ in range(3):
            with pytest.raises(DeadlineExceeded, match=r"allreduce was not through after 0\.01 s; it goes on"):
                handle.wait(0.01)
        with pytest.raises(DeadlineExceeded):
            handle.wait(0)
        assert world.ranks[1].allreduce([2]) == [3]
        assert [handle.wait(30), handle.wait(), handle.wait(0)] == [[3]] * 3


@pytest.mark.parametrize("deadline", [-1, float("nan"), float("inf"), "5", True])
def test_a_wait_has_a_sensible_deadline_or_none(deadline: Any) -> None:
    with World(1) as world:
        handle = world.ranks[0].start("barrier")
        with pytest.raises(ConfigError, match="deadline"):
            handle.wait(deadline)
        handle.wait()


def test_several_handles_are_awaited_together() -> None:
    async def on_all(world: World) -> list[list[int]]:
        return await asyncio.gather(*(comm.start("allreduce", [i]) for i in range(5) for comm in world.ranks))

    with World(3) as world:
        assert asyncio.run(on_all(world)) == [[3 * i] for i in range(5) for _ in range(3)]


def test_a_task_that_gives_up_waiting_does_not_take_its_call_back() -> None:
    """The second call has not begun when its task is cancelled; the others make it, so that it has to be made."""

    async def give_up(comm: Communicator) -> None:
        first, second = comm.start("allreduce", [1]), comm.start("allreduce", [10])
        for handle in (first, second):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(handle, 0.05)
        assert not second.done()

    with World(2) as world:
        asyncio.run(give_up(world.ranks[0]))
        assert [world.ranks[1].allreduce([x]) for x in (1, 10)] == [[2], [20]]
        assert world.run(lambda comm: comm.allreduce([100])) == [[200]] * 2


def test_an_argument_error_comes_at_once_and_leaves_the_calls_before_and_after_it_alone() -> None:
    def one_bad(comm: Communicator) -> list[Any]:
        good = comm.start("allreduce", [1])
        with pytest.raises(ConfigError, match="dict cannot be sent"):
            comm.start("allreduce", {})
        also_good = comm.start("scan", [1])
        return [good.wait(), also_good.wait()]

    with World(2) as world:
        assert world.run(one_bad) == [[[2], [1]], [[2], [2]]]


def test_what_goes_wrong_in_a_call_is_raised_where_it_is_waited_for_or_awaited_as_often_as_one_likes() -> None:
    async def late(handle: Handle) -> None:
        with pytest.raises(DeadlineExceeded, match="rank 1"):
            await handle

    with World(2) as world:
        handle = world.ranks[0].start("allreduce", [1], deadline=0.05)
        asyncio.run(late(handle))
        for _ in range(2):
            with pytest.raises(DeadlineExceeded, match="rank 1"):
                handle.wait()
        assert handle.done()


def test_a_handle_that_nobody_keeps_does_its_work() -> None:
    arrays = [np.full(10_000, rank + 1.0) for rank in range(2)]
    with World(2) as world:
        for comm in world.ranks:
            comm.start("allreduce", arrays[comm.rank], out=arrays[comm.rank])
        world.run(lambda comm: comm.barrier())
    assert [float(array.min()) for array in arrays] == [3.0, 3.0]


def test_blocking_and_started_calls_keep_their_order() -> None:
    def alternate(comm: Communicator) -> list[int]:
        x = np.array([1])
        for step in range(40):
            if step % 3:
                comm.start("allreduce", x, out=x)
            else:
                comm.allreduce(x, "max", out=x)
        comm.barrier()
        return x.tolist()

    with World(2) as world:
        assert world.run(alternate) == [[2**26]] * 2
