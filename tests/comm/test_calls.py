"""How calls are made: asynchronously, with odd arrays, on objects, and wrongly."""

from __future__ import annotations

import asyncio
import threading

import numpy as np
import pytest
from tests.comm.world import World

import unisono
from unisono.comm.communicator import Communicator
from unisono.errors import ConfigError, DeadlineExceeded, MismatchError


def test_started_calls_go_on_while_python_computes_and_keep_their_order() -> None:
    def many(comm: Communicator) -> list[float]:
        handles = [comm.start("allreduce", np.full(10_000, i + comm.rank, np.float64)) for i in range(20)]
        last = comm.allreduce(np.full(3, 100.0))  # a blocking call comes after those that were started
        assert all(handle.done() for handle in handles)
        return [float(handle.wait()[0]) for handle in handles] + [float(last[0])]

    with World(3) as world:
        right = [3.0 * i + 3 for i in range(20)] + [300.0]
        assert world.run(many) == [right] * 3


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
        handle.wait(5)
        assert "done" in repr(handle)


def test_an_error_of_a_started_call_comes_with_its_handle() -> None:
    with World(1) as world, pytest.raises(ConfigError, match="no operator"):
        world.ranks[0].start("allreduce", [1], "median").wait()


def test_two_communicators_progress_independently() -> None:
    with World(2) as first, World(2) as second:
        held = first.ranks[0].start("allreduce", np.ones(4))
        assert second.run(lambda comm: comm.allreduce([1])) == [[2], [2]]
        assert not held.done()
        first.ranks[1].allreduce(np.ones(4))
        assert held.wait(5).tolist() == [2, 2, 2, 2]


def test_a_premultiplied_sum_scales_every_contribution() -> None:
    op = unisono.premultiplied_sum(0.5)
    xs = [np.arange(5.0), np.arange(5.0) + 1]
    with World(2) as world:
        for result in world.run(lambda comm: comm.allreduce(xs[comm.rank], op)):
            np.testing.assert_allclose(result, np.arange(5.0) + 0.5)
        world.run(lambda comm: comm.allreduce(xs[comm.rank], op, out=xs[comm.rank]))
        np.testing.assert_allclose(xs[0], np.arange(5.0) + 0.5)
        with pytest.raises(ConfigError, match="not defined"):
            world.run(lambda comm: comm.allreduce(np.arange(3), op))


def test_reproducible_sums_have_the_same_bits_whatever_the_links() -> None:
    rng = np.random.default_rng(1)
    xs = [rng.normal(0, 10.0**r, 1001).astype(np.float32) for r in range(5)]
    left_to_right = (((xs[0] + xs[1]) + xs[2]) + xs[3]) + xs[4]
    for links in ("shm", "tcp", "mixed"):
        with World(5, links) as world:
            for result in world.run(lambda comm: comm.allreduce(xs[comm.rank], reproducible=True)):
                assert result.tobytes() == left_to_right.tobytes()
    with World(3) as world, pytest.raises(ConfigError, match="cannot be reproducible"):
        world.run(lambda comm: comm.allreduce(xs[comm.rank], reproducible=True, algorithm="ring"))


def test_objects_travel_where_pickle_is_allowed_and_only_there() -> None:
    values = [{"rank": 0}, ["one"], None]
    with World(3, allow_pickle=True) as world:
        assert world.run(lambda comm: comm.allgather_object(values[comm.rank])) == [values] * 3
        assert world.run(lambda comm: comm.gather_object(values[comm.rank], 1)) == [None, values, None]
        assert world.run(lambda comm: comm.broadcast_object(values[comm.rank], 1)) == [["one"]] * 3
    with World(1) as world, pytest.raises(ConfigError, match="allow_pickle=True"):
        world.ranks[0].broadcast_object(1)


def test_calls_of_several_threads_take_turns() -> None:
    """Threads of a rank may call at once if it does not matter in which order: all sum the same."""
    with World(2) as world:
        sums: list[float] = []

        def caller(comm: Communicator) -> None:
            for _ in range(50):
                sums.append(float(comm.allreduce(np.ones(100))[0]))

        threads = [threading.Thread(target=caller, args=(comm,)) for comm in world.ranks for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sums == [2.0] * 300


@pytest.mark.parametrize("links", ["shm", "tcp"])
def test_a_vector_goes_round_by_send_and_receive_between_collectives(links: str) -> None:
    def round_trip(comm: Communicator) -> float:
        x, after, before = np.full(100_000, float(comm.rank)), (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
        comm.barrier()
        if comm.rank == 0:
            comm.send(x, after)
            comm.recv(before, out=x)
        else:
            comm.recv(before, out=x)
            comm.send(x + 1, after)
        return float(comm.allreduce(x)[0])

    with World(4, links) as world:
        assert world.run(round_trip) == [3.0 + 0 + 1 + 2] * 4


def test_everybody_sends_and_receives_at_once() -> None:
    def shift(comm: Communicator) -> float:
        x = np.full(50_000, float(comm.rank))
        comm.sendrecv(x, (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size, out=x)
        return float(x[-1])

    with World(3) as world:
        assert world.run(shift) == [2.0, 0.0, 1.0]
        assert world.run(
            lambda comm: comm.sendrecv([comm.rank], 1 - comm.rank, 1 - comm.rank) if comm.rank < 2 else None
        ) == [
            [1],
            [0],
            None,
        ]


def test_a_receive_of_another_length_or_type_is_a_mismatch() -> None:
    for out in (np.empty(4), np.empty(6, np.float32)):
        with World(2, deadline=2) as world, pytest.raises(MismatchError, match="send or receive 0"):
            world.run(lambda comm, out=out: comm.send(np.ones(3), 1) if comm.rank == 0 else comm.recv(0, out=out))


def test_who_sends_to_itself_or_to_nobody_is_told() -> None:
    with World(2) as world:
        with pytest.raises(ConfigError, match="itself"):
            world.ranks[0].send([1], 0)
        with pytest.raises(ConfigError, match="rank 2 is out of range"):
            world.ranks[0].send([1], 2)
