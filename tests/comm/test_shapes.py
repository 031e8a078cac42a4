"""Arrays of any shape and any order in memory, parts of any length, any root."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.comm.oracle import CUT, assert_right, call, expected, inputs
from tests.comm.world import LINKS, World

from unisono.comm.communicator import Communicator
from unisono.errors import ConfigError

COLLECTIVES = ("allreduce", "broadcast", "reduce", "scan", "allgather", "gather", *CUT)
RANKS, ANY_LINKS = st.integers(1, 5), st.sampled_from(LINKS)
SHAPES = st.lists(st.integers(0, 5), max_size=4).map(tuple)


def strided(x: np.ndarray) -> np.ndarray:
    wider = np.zeros((*x.shape, 2), x.dtype)
    wider[..., 1] = x
    return wider[..., 1]


def read_only(x: np.ndarray) -> np.ndarray:
    x = x.copy()
    x.flags.writeable = False
    return x


def backwards(x: np.ndarray) -> np.ndarray:
    every_axis = (slice(None, None, -1),) * x.ndim
    return x[every_axis].copy()[every_axis]


def by_columns(x: np.ndarray) -> np.ndarray:
    return np.array(x, order="F")


ARRANGEMENTS = (np.array, by_columns, strided, read_only, backwards)


@pytest.mark.soak
@pytest.mark.parametrize("collective", COLLECTIVES)
@given(p=RANKS, links=ANY_LINKS, shape=SHAPES, arrange=st.sampled_from(ARRANGEMENTS), data=st.data())
def test_arrays_of_any_shape_and_order_are_read_rightly(
    collective: str, p: int, links: str, shape: tuple[int, ...], arrange: Any, data: st.DataObject
) -> None:
    if collective in CUT:
        shape = (p * (shape[0] if shape else 1), *shape[1:])
    root, xs = data.draw(st.integers(0, p - 1)), inputs(p, shape, "int32")
    with World(p, links) as world:
        results = world.run(lambda comm: call(comm, collective, arrange(xs[comm.rank]), root))
    for result, right in zip(results, expected(collective, xs, root), strict=True):
        assert_right(collective, result, right, xs, "sum", shape)


def split_rows(whole: np.ndarray, counts: list[int]) -> list[np.ndarray]:
    return np.split(whole, list(accumulate(counts))[:-1])


@pytest.mark.soak
@given(
    links=ANY_LINKS,
    counts=RANKS.flatmap(lambda p: st.lists(st.integers(0, 30), min_size=p, max_size=p)),
    row=st.lists(st.integers(0, 3), max_size=2).map(tuple),
    op=st.sampled_from(["sum", "max", "avg"]),
)
def test_a_reduction_is_cut_into_rows_as_told(links: str, counts: list[int], row: tuple[int, ...], op: str) -> None:
    p = len(counts)
    xs = inputs(p, (sum(counts), *row), "int64")
    whole = expected("allreduce", xs, op=op)[0]
    with World(p, links) as world:
        results = world.run(lambda comm: comm.reduce_scatter(xs[comm.rank], op, counts=counts))
    for result, right in zip(results, split_rows(whole, counts), strict=True):
        assert_right("reduce_scatter", result, right, xs, op, counts)


@pytest.mark.parametrize("links", LINKS)
@pytest.mark.parametrize("collective", COLLECTIVES)
def test_nothing_can_be_communicated(collective: str, links: str) -> None:
    for shape in ((0,), (3, 0), (0, 2)):
        xs = inputs(3, shape, "float32")
        with World(3, links) as world:
            results = world.run(lambda comm, xs=xs: call(comm, collective, xs[comm.rank], 1))
            for result, right in zip(results, expected(collective, xs, 1), strict=True):
                assert_right(collective, result, right, xs, "sum", shape)
            assert world.run(lambda comm: comm.allreduce([1])) == [[3]] * 3


def test_an_output_needs_the_elements_of_the_result_in_any_shape() -> None:
    def shaped(comm: Communicator) -> tuple[Any, ...]:
        out = np.empty((2, 3), np.int64)
        result = comm.allgather(np.arange(3), out=out)
        assert result is out
        flat = comm.allgather(np.arange(3), out=np.empty(6, np.int64))
        return out.tolist(), flat.tolist()

    with World(2) as world:
        assert world.run(shaped) == [([[0, 1, 2]] * 2, [0, 1, 2] * 2)] * 2


@pytest.mark.parametrize("arrange", [strided, by_columns, backwards])
def test_an_output_that_is_not_contiguous_is_refused(arrange: Any) -> None:
    with World(2) as world:
        for call_it in (
            lambda comm: comm.broadcast(arrange(np.ones((3, 3)))),
            lambda comm: comm.allreduce(np.ones((3, 3)), out=arrange(np.ones((3, 3)))),
            lambda comm: comm.recv(1 - comm.rank, out=arrange(np.ones((3, 3)))),
        ):
            with pytest.raises(ConfigError, match="not contiguous; receive into a contiguous array and copy"):
                world.run(call_it)
        assert world.run(lambda comm: comm.allreduce(1)) == [2, 2]


def test_a_ring_of_one_rank_sends_to_itself() -> None:
    with World(1) as world:
        out = np.empty(3)
        world.ranks[0].sendrecv(np.arange(3.0), 0, 0, out=out)
        assert out.tolist() == [0, 1, 2]
        assert world.ranks[0].sendrecv([4, 5], 0, 0) == [4, 5]
