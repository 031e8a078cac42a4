"""Inputs and outputs that share memory, wholly or partly."""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.comm.oracle import CUT, HALVED, assert_right, call, expected, inputs, names
from tests.comm.world import LINKS, World

from unisono.comm.communicator import Communicator

RANKS, ANY_LINKS = st.integers(1, 5), st.sampled_from(LINKS)
ELEMENTS = st.sampled_from([1, 7, 64, 1500])  # the last ones are longer than a ring
LENGTHS = {"allgather": (1, None), "gather": (1, None), "scatter": (None, 1), "reduce_scatter": (None, 1)}
"""Of input and output in parts; None is all of them."""


@pytest.mark.soak
@pytest.mark.parametrize("collective", ["allreduce", "reduce", "scan", "allgather", "gather", *CUT])
@given(p=RANKS, links=ANY_LINKS, part=ELEMENTS, data=st.data())
def test_an_output_may_lie_anywhere_in_or_beside_the_input(
    collective: str, p: int, links: str, part: int, data: st.DataObject
) -> None:
    xs_length, out_length = (part * (p if parts is None else parts) for parts in LENGTHS.get(collective, (None, None)))
    longest = max(xs_length, out_length)
    name = data.draw(st.sampled_from([None, *names(collective)]))
    op = data.draw(st.sampled_from(["sum", "avg", HALVED]))
    starts = data.draw(st.lists(st.tuples(*[st.integers(0, longest)] * 2), min_size=p, max_size=p))
    root, xs = data.draw(st.integers(0, p - 1)), inputs(p, (xs_length,), "float64")
    memories = [np.full(2 * longest, np.nan) for _ in range(p)]

    def one_rank(comm: Communicator) -> Any:
        memory, (start, out_start) = memories[comm.rank], starts[comm.rank]
        x, out = memory[start : start + xs_length], memory[out_start : out_start + out_length]
        x[:] = xs[comm.rank]
        result = call(comm, collective, x, root, op, out=out, algorithm=name)
        return None if result is None else out.copy()

    with World(p, links) as world:
        results = world.run(one_rank)
    for result, right in zip(results, expected(collective, xs, root, op), strict=True):
        flat = None if right is None else right.ravel()
        assert_right(collective, result, flat, xs, op, (name, starts))


def in_place(collective: str, name: str, arrays: list[np.ndarray], comm: Communicator) -> Any:
    array = arrays[comm.rank]
    return call(comm, collective, array, comm.size - 1, out=array, algorithm=name)


@pytest.mark.parametrize("links", LINKS)
@pytest.mark.parametrize("collective", ["allreduce", "reduce", "scan", "alltoall"])
def test_every_algorithm_works_in_place(collective: str, links: str) -> None:
    for p in (1, 2, 3, 5):
        with World(p, links) as world:
            lengths = (p, 300 * p) if collective == "alltoall" else (1, p - 1, 1000 + p // 2)
            for length, name in product(lengths, names(collective)):
                xs = inputs(p, (length,), "int64")
                copies = [x.copy() for x in xs]
                world.run(partial(in_place, collective, name, copies))
                for rank, right in enumerate(expected(collective, xs, p - 1)):
                    untouched = xs[rank] if right is None else right
                    np.testing.assert_array_equal(copies[rank], untouched, err_msg=f"{name}, p={p}")


@pytest.mark.parametrize("collective", ["allreduce", "reduce", "scan", "allgather", "gather", *CUT])
def test_an_input_that_is_not_the_output_stays_as_it_was(collective: str) -> None:
    xs = inputs(3, (3 * 100,), "float32")
    copies = [x.copy() for x in xs]
    with World(3) as world:
        for name in names(collective):
            world.run(lambda comm, name=name: call(comm, collective, copies[comm.rank], op=HALVED, algorithm=name))
    for x, copy in zip(xs, copies, strict=True):
        np.testing.assert_array_equal(copy, x)


@given(shift=st.integers(-40, 40))
def test_what_is_sent_and_received_at_once_may_overlap(shift: int) -> None:
    memories = [np.arange(200.0) + 1000 * rank for rank in range(2)]
    sent = memories[1][50:150].copy()

    def exchange(comm: Communicator) -> None:
        memory, other = memories[comm.rank], 1 - comm.rank
        comm.sendrecv(memory[50:150], other, other, out=memory[50 + shift : 150 + shift])

    with World(2) as world:
        world.run(exchange)
    np.testing.assert_array_equal(memories[0][50 + shift : 150 + shift], sent)
