"""What becomes of special values: not a number, infinity, overflow, halves, truth."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.comm.oracle import DTYPES, FLOATS, OPS, dtype_named, inputs, is_defined, names, reduced
from tests.comm.world import LINKS, World

import unisono
from unisono.comm.communicator import Communicator
from unisono.errors import ConfigError

SPECIAL = [np.nan, -np.inf, np.inf, -0.0, 0.0, 1.0, -2.0]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", ["min", "max", "sum", "prod"])
def test_not_a_number_and_infinity_spread_as_in_numpy(op: str, dtype: str) -> None:
    """A NaN of one rank is every rank's result, wherever it stands; min and max do not skip it."""
    first, second = np.meshgrid(SPECIAL, SPECIAL)
    xs = [grid.ravel().astype(dtype_named(dtype)) for grid in (first, second)]
    with np.errstate(invalid="ignore"):
        right = reduced(op, xs)
    with World(2) as world:
        for result in world.run(lambda comm: comm.allreduce(xs[comm.rank], op)):
            np.testing.assert_array_equal(result.astype(np.float64), right)


@pytest.mark.parametrize("links", LINKS)
def test_a_nan_reaches_every_rank_by_every_algorithm(links: str) -> None:
    with World(5, links) as world:
        for name in names("allreduce"):
            for culprit in (0, 2, 4):

                def one_rank(comm: Communicator, name: str = name, culprit: int = culprit) -> np.ndarray:
                    x = np.ones(100, np.float32)
                    x[::9] = np.nan if comm.rank == culprit else 1
                    return comm.allreduce(x, "max", algorithm=name)

                for result in world.run(one_rank):
                    assert np.isnan(result[::9]).all(), name
                    assert np.isfinite(np.delete(result, np.s_[::9])).all(), name


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", OPS, ids=str)
def test_an_operator_is_refused_where_it_is_not_defined(op: Any, dtype: str) -> None:
    xs = inputs(2, (5,), dtype)
    with World(2) as world:
        if not is_defined(op, dtype):
            with pytest.raises(ConfigError, match=f"not defined for elements of type {dtype}"):
                world.run(lambda comm: comm.allreduce(xs[comm.rank], op))
        assert len(world.run(lambda comm: comm.allreduce(xs[comm.rank], "max"))) == 2


def test_an_average_of_integers_rounds_towards_zero_after_the_sum_has_wrapped() -> None:
    def average(comm: Communicator) -> tuple[list[int], list[int]]:
        small = comm.allreduce(np.array([-7, 7, -1, 1], np.int32) * (comm.rank == 0), "avg")
        return small.tolist(), comm.allreduce(np.array([100], np.int8), "avg").tolist()

    with World(2) as world:
        assert world.run(average) == [([-3, 3, 0, 0], [-28])] * 2  # 200 is -56 in 8 bits


@pytest.mark.parametrize("links", LINKS)
@pytest.mark.parametrize("ranks", [2, 3])
def test_an_average_has_the_bits_of_the_sum_divided_by_every_algorithm(ranks: int, links: str) -> None:
    """Wherever it is divided: by who sums, or by each rank in the end; in place, and in several pieces."""
    xs = [np.random.default_rng(rank).standard_normal(70_002).astype(np.float32) for rank in range(ranks)]
    root = ranks - 1

    def averages(comm: Communicator, call: str, name: str) -> Any:
        x, arguments = xs[comm.rank].copy(), (root,) if call == "reduce" else ()
        total = getattr(comm, call)(xs[comm.rank], *arguments, algorithm=name)
        average = getattr(comm, call)(x, *arguments, op="avg", algorithm=name)
        assert (x == xs[comm.rank]).all()
        if call == "allreduce":
            comm.allreduce(x, "avg", out=x, algorithm=name)
            assert x.tobytes() == average.tobytes()
        return total, average

    with World(ranks, links) as world:
        for call in ("allreduce", "reduce", "reduce_scatter"):
            for name in names(call):
                for total, average in world.run(lambda comm, call=call, name=name: averages(comm, call, name)):
                    right = None if total is None else (total / np.float32(ranks)).tobytes()
                    assert (None if average is None else average.tobytes()) == right, (call, name)


def test_an_average_up_to_each_rank_is_of_so_many() -> None:
    with World(4) as world:
        assert world.run(lambda comm: comm.scan([float(comm.rank)], "avg")) == [[0.0], [0.5], [1.0], [1.5]]


def test_halves_are_scaled_before_they_are_added_so_that_large_ones_do_not_overflow() -> None:
    quarter = unisono.premultiplied_sum(0.25)
    with World(3) as world:
        for result in world.run(lambda comm: comm.allreduce(np.full(1, 40000, np.float16), quarter)):
            assert result.tolist() == [30000]
        for result in world.run(lambda comm: comm.allreduce(np.full(1, 40000, np.float16), "avg")):
            assert result.tolist() == [np.inf]  # the sum is a half, too


def test_truth_that_is_stored_as_another_byte_than_one_is_true() -> None:
    odd = np.array([0, 2, 255], np.uint8).view(bool)
    with World(2) as world:
        for result in world.run(lambda comm: comm.allreduce(odd, "and")):
            assert result.view(np.uint8).tolist() == [0, 1, 1]
