"""How calls are made: asynchronously, with odd arrays, on objects, and wrongly."""

from __future__ import annotations

import numpy as np
import pytest
from tests.comm.world import World

import unisono
from unisono.comm.communicator import Communicator
from unisono.errors import ConfigError, MismatchError


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


def test_objects_travel_where_pickle_is_allowed_and_only_there() -> None:
    values = [{"rank": 0}, ["one"], None]
    with World(3, allow_pickle=True) as world:
        assert world.run(lambda comm: comm.allgather_object(values[comm.rank])) == [values] * 3
        assert world.run(lambda comm: comm.gather_object(values[comm.rank], 1)) == [None, values, None]
        assert world.run(lambda comm: comm.broadcast_object(values[comm.rank], 1)) == [["one"]] * 3
    with World(1) as world, pytest.raises(ConfigError, match="allow_pickle=True"):
        world.ranks[0].broadcast_object(1)


@pytest.mark.parametrize("links", ["direct", "staged", "tcp"])
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
        with World(2, deadline=20) as world, pytest.raises(MismatchError, match="a send before call 0"):
            world.run(lambda comm, out=out: comm.send(np.ones(3), 1) if comm.rank == 0 else comm.recv(0, out=out))


def test_who_sends_to_itself_or_to_nobody_is_told() -> None:
    with World(2) as world:
        with pytest.raises(ConfigError, match="itself"):
            world.ranks[0].send([1], 0)
        with pytest.raises(ConfigError, match="rank 2 is out of range"):
            world.ranks[0].send([1], 2)
