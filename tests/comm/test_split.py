"""Communicators made from communicators, against a model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.comm.world import World
from tests.conftest import SOAK

from unisono.comm.communicator import Communicator
from unisono.errors import ConfigError

RANKS = 4
COLORS = st.one_of(st.none(), st.integers(0, 2), st.just(2**63 - 1))
KEYS = st.one_of(st.integers(-2, 2), st.sampled_from([-(2**63), 2**63 - 1]))
CHOICES = st.lists(st.tuples(COLORS, KEYS), min_size=RANKS, max_size=RANKS)
Choice = tuple[int | None, int]


@pytest.fixture(scope="module", params=["auto", "tcp"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    with World.joined(RANKS, request.param) as joined:
        yield joined


def members(choices: list[Choice], rank: int) -> list[int] | None:
    """The ranks of this one's color, by key and then by rank."""
    color = choices[rank][0]
    if color is None:
        return None
    return sorted((r for r, (other, _) in enumerate(choices) if other == color), key=lambda r: (choices[r][1], r))


def who_is_in(comm: Communicator | None, name: int) -> list[int] | None:
    """What the ranks of a group call themselves, by their rank in it."""
    if comm is None:
        return None
    assert comm.allreduce([1]) == [comm.size]
    names = comm.allgather(name)
    assert names[comm.rank] == name
    return names


@settings(max_examples=500 if SOAK else 20)
@pytest.mark.soak
@given(choices=CHOICES)
def test_ranks_of_a_color_are_together_in_the_order_of_their_keys(world: World, choices: list[Choice]) -> None:
    def one_rank(comm: Communicator) -> list[int] | None:
        part = comm.split(*choices[comm.rank])
        try:
            return who_is_in(part, comm.rank)
        finally:
            if part:
                part.close()

    assert world.run(one_rank) == [members(choices, rank) for rank in range(RANKS)]
    assert world.run(lambda comm: comm.allreduce([1])) == [[RANKS]] * RANKS


def test_a_part_is_split_again_and_again(world: World) -> None:
    def one_rank(comm: Communicator) -> list[Any]:
        found = []
        part: Communicator | None = comm
        while part is not None and part.size > 1:
            smaller = part.split(part.rank % 2, key=-part.rank)
            found.append(who_is_in(smaller, comm.rank))
            if part is not comm:
                part.close()
            part = smaller
        if part is not None:
            part.close()
        return found

    assert world.run(one_rank) == [[[2, 0], [0]], [[3, 1], [1]], [[2, 0], [2]], [[3, 1], [3]]]


def test_whoever_has_no_color_is_in_no_group(world: World) -> None:
    assert world.run(lambda comm: comm.split(None)) == [None] * RANKS
    assert world.run(lambda comm: comm.allreduce([1])) == [[RANKS]] * RANKS


def test_a_parent_and_its_parts_are_used_side_by_side_and_end_in_any_order(world: World) -> None:
    def one_rank(comm: Communicator) -> list[Any]:
        twin, pair = comm.duplicate(), comm.split(comm.rank // 2)
        assert pair is not None
        assert (twin.rank, twin.size, pair.size) == (comm.rank, comm.size, 2)
        started = [each.start("allreduce", np.full(1000, comm.rank)) for each in (comm, twin, pair)]
        results = [int(handle.wait(20)[0]) for handle in reversed(started)]
        twin.close()
        results.append(pair.allreduce(comm.rank))
        grandchild = pair.duplicate()
        pair.close()
        results.append(grandchild.allreduce(1))
        with pytest.raises(ConfigError, match="closed"):
            pair.split(0)
        grandchild.close()
        return [*results, comm.allreduce(1)]

    assert world.run(one_rank) == [[s, 6, 6, s, 2, RANKS] for s in (1, 1, 5, 5)]


def test_a_part_outlives_its_parent() -> None:
    def one_rank(comm: Communicator) -> int:
        with comm.split(0) as part:
            comm.close()
            return part.allreduce(1) + part.duplicate().allreduce(10)

    with World.joined(2) as world:
        assert world.run(one_rank) == [22, 22]


def test_started_splits_keep_their_order(world: World) -> None:
    def one_rank(comm: Communicator) -> list[int]:
        handles = [comm.start("split", comm.rank % 2), comm.start("allreduce", [1]), comm.start("duplicate")]
        pair, total, twin = (handle.wait(20) for handle in handles)
        sizes = [pair.allreduce(1), *total, twin.allreduce(1)]
        pair.close()
        twin.close()
        return sizes

    assert world.run(one_rank) == [[2, RANKS, RANKS]] * RANKS
