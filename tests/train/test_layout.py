"""Which gradient lies where, and how large buckets are."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unisono.errors import ConfigError
from unisono.train.buckets import MOST, SMALLEST, Cost, best_bucket, cost_of_allreduce, exposed, smallest_bucket
from unisono.train.layout import ALIGNMENT, FLOATS, Parameter, bytes_of, expresses, in_order, lay_out, parameters_of
from unisono.train.shares import shares
from unisono.tune.model import Model
from unisono.tune.place import Place

SHAPES = st.lists(st.integers(0, 40), max_size=3).map(tuple)
PARAMETERS = st.lists(st.tuples(SHAPES, st.sampled_from(list(FLOATS))), min_size=1, max_size=30).map(
    lambda drawn: [Parameter((f"p{n}",), shape, dtype) for n, (shape, dtype) in enumerate(drawn)]
)


@given(parameters=PARAMETERS, limit=st.integers(1, 1 << 16), wire=st.sampled_from([None, *FLOATS]))
def test_every_gradient_has_one_place_and_places_do_not_overlap(
    parameters: list[Parameter], limit: int, wire: str | None
) -> None:
    buckets = lay_out(parameters, limit, wire)
    placed = [name for bucket in buckets for name in bucket.names]
    assert sorted(placed) == sorted(parameter.name for parameter in parameters)
    by_name = {parameter.name: parameter for parameter in parameters}
    for bucket in buckets:
        end = 0
        for name, start in bucket.starts.items():
            assert start >= end
            assert start * FLOATS[bucket.dtype] % ALIGNMENT == 0
            assert bucket.dtype == (wire or by_name[name].dtype)
            end = start + by_name[name].elements
        assert end <= bucket.elements
        useful = sum(by_name[name].elements * FLOATS[bucket.dtype] for name in bucket.starts)
        assert useful <= limit or len(bucket.names) == 1


@given(parameters=PARAMETERS, limit=st.integers(1, 1 << 16))
def test_within_a_type_buckets_become_full_in_the_order_of_gradients(parameters: list[Parameter], limit: int) -> None:
    buckets = lay_out(parameters, limit)
    for dtype in FLOATS:
        placed = [name for bucket in buckets if bucket.dtype == dtype for name in bucket.names]
        assert placed == [parameter.name for parameter in parameters if parameter.dtype == dtype]


@given(parameters=PARAMETERS, order=st.lists(st.integers(0, 29)))
def test_any_order_keeps_all_parameters(parameters: list[Parameter], order: list[int]) -> None:
    known = [number for number in order if number < len(parameters)]
    assert sorted(map(str, in_order(parameters, known))) == sorted(map(str, parameters))


SIZES = st.lists(st.tuples(st.integers(0, 300), st.sampled_from(list(FLOATS))), min_size=1, max_size=30)


@given(kinds=SIZES, times=st.integers(1, 50))
def test_buckets_of_the_smallest_size_are_not_more_than_the_flight_recorder_keeps(
    kinds: list[tuple[int, str]], times: int
) -> None:
    parameters = [Parameter((f"p{n}",), (size,), dtype) for n, (size, dtype) in enumerate(kinds * times)]
    buckets = lay_out(parameters, max(1, smallest_bucket(bytes_of(parameters))))
    assert len(buckets) <= 2 * MOST + len(FLOATS) < 256


def test_what_forward_needs_first_is_on_the_express_lane() -> None:
    parameters = [Parameter((f"p{n}",), (256,), "float32") for n in reversed(range(8))]
    buckets = lay_out(parameters, 1024)
    assert expresses(buckets, True) == [False] * 6 + [True] * 2
    assert not any(expresses(buckets, False))


def test_an_array_that_comes_twice_is_one_parameter() -> None:
    shared = np.zeros((2, 3))
    found = parameters_of({"embedding": shared, "bias": np.zeros(3, np.float32), "head": shared})
    assert [parameter.names for parameter in found] == [("embedding", "head"), ("bias",)]


def test_integers_have_no_gradient() -> None:
    with pytest.raises(ConfigError, match=r"steps: int64 \(2,\): a gradient has elements of float64"):
        parameters_of({"steps": np.zeros(2, np.int64)})


@pytest.mark.parametrize("nbytes", [1 << 20, 100 << 20, 1 << 30])
@pytest.mark.parametrize("ranks", [2, 4, 16])
def test_no_other_bucket_size_exposes_less(nbytes: int, ranks: int) -> None:
    place = Place((1,) * ranks, cores=2)
    cost = cost_of_allreduce(lambda size: Model().seconds("allreduce", "ring", ranks, size, place))
    best = best_bucket(nbytes, cost)
    others = [best * factor for factor in (0.25, 0.5, 2, 4) if max(SMALLEST, nbytes / MOST) <= best * factor <= nbytes]
    assert all(exposed(nbytes, best, cost) <= exposed(nbytes, other, cost) for other in others)


def test_calls_that_cost_more_make_larger_buckets() -> None:
    assert best_bucket(100 << 20, Cost(1e-3, 1e-8)) > best_bucket(100 << 20, Cost(1e-4, 1e-8)) > SMALLEST


@given(total=st.integers(0, 10_000), speeds=st.lists(st.floats(1e-3, 1e6), min_size=1, max_size=16))
def test_shares_add_up_and_follow_the_speeds(total: int, speeds: list[float]) -> None:
    cut = shares(total, speeds)
    assert sum(cut) == total
    assert min(cut) >= (1 if total >= len(speeds) else 0)
    by_speed = [share for _, share in sorted(zip(speeds, cut, strict=True))]
    assert all(later - earlier >= -1 for earlier, later in pairwise(by_speed))


def test_a_rank_twice_as_fast_gets_twice_as_much() -> None:
    assert shares(96, [1.0, 2.0, 1.0, 2.0]) == [16, 32, 16, 32]


@pytest.mark.parametrize("total", [10.5, "10"])
def test_parts_of_samples_are_not_shared(total: Any) -> None:
    with pytest.raises(ConfigError, match="total is a whole number, not"):
        shares(total, [1.0, 2.0])
