"""reproducible=True: the bits depend on the inputs and on nothing else."""

from __future__ import annotations

import random
import threading
from functools import reduce
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.comm.oracle import FLOATS, dtype_named, inputs, names
from tests.comm.world import LINKS, World

from unisono.comm.communicator import Communicator
from unisono.errors import ConfigError
from unisono.tune.select import is_reproducible

LEFT_TO_RIGHT = [name for name in names("allreduce") if is_reproducible("allreduce", name, 5)]
"""Everything meets in one place and is added from rank 0 to the last; trees put the brackets elsewhere."""
OTHERS = [name for name in names("allreduce") if name not in LEFT_TO_RIGHT]


def unlike(p: int, length: int, dtype: str) -> list[np.ndarray]:
    """Magnitudes so different that every other order or bracket gives other bits."""
    scale = 3.0 if dtype == "float16" else 100.0
    kind = dtype_named(dtype)
    return [(x.astype(np.float64) * scale**rank).astype(kind) for rank, x in enumerate(inputs(p, (length,), "float64"))]


def sums(p: int, links: str, xs: list[np.ndarray], **options: Any) -> set[bytes]:
    with World(p, links) as world:
        return {
            result.tobytes()
            for result in world.run(lambda comm: comm.allreduce(xs[comm.rank], reproducible=True, **options))
        }


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("p", [1, 2, 5, 8])
def test_a_sum_is_added_from_rank_0_to_the_last_on_all_links(p: int, dtype: str) -> None:
    xs = unlike(p, 1001, dtype)
    for links in LINKS:
        assert sums(p, links, xs) == {reduce(np.add, xs).tobytes()}, links


@pytest.mark.parametrize("name", [None, *names("allreduce")])
def test_every_rank_gets_the_same_bytes(name: str | None) -> None:
    """Also where nobody asks for reproducible sums: models that are trained in parallel must not drift apart."""
    xs = unlike(5, 100, "float32")
    with World(5) as world:
        results = world.run(lambda comm: comm.allreduce(xs[comm.rank], algorithm=name))
    assert len({result.tobytes() for result in results}) == 1


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", [None, *LEFT_TO_RIGHT])
def test_algorithms_that_add_from_left_to_right_give_the_same_bits_on_all_links(name: str | None, dtype: str) -> None:
    xs = unlike(5, 3003, dtype)  # of the larger types, more than a ring holds
    bits = [sums(5, links, xs, algorithm=name) for links in LINKS]
    assert len(set.union(*bits)) == 1


@pytest.mark.parametrize("name", LEFT_TO_RIGHT)
def test_algorithms_that_add_in_one_place_agree(name: str) -> None:
    xs = unlike(5, 2000, "float32")
    assert sums(5, "direct", xs, algorithm=name) == {reduce(np.add, xs).tobytes()}


def test_brackets_elsewhere_give_other_bits_so_that_these_tests_would_see_it() -> None:
    xs = unlike(5, 2000, "float32")
    with World(5) as world:
        for name, agrees in (("mst", False), ("ring", False), ("flat", True)):
            result = world.run(lambda comm, name=name: comm.allreduce(xs[comm.rank], algorithm=name))[0]
            assert (result.tobytes() == reduce(np.add, xs).tobytes()) is agrees, name


def test_what_is_reproducible_was_found_and_not_listed() -> None:
    assert set(LEFT_TO_RIGHT) == {"flat", "exchange", "direct", "weighted", "parameter_servers"}


@pytest.mark.parametrize("name", OTHERS)
def test_an_algorithm_that_adds_otherwise_is_refused(name: str) -> None:
    with World(5) as world:
        with pytest.raises(ConfigError, match=f"{name} does not reduce from rank 0 to the last"):
            world.run(lambda comm: comm.allreduce([1.0], algorithm=name, reproducible=True))
        assert world.run(lambda comm: comm.allreduce([1])) == [[5]] * 5


@given(parts=st.lists(st.integers(1, 700), min_size=1, max_size=5))
def test_the_bits_do_not_depend_on_how_a_vector_is_cut_into_calls(parts: list[int]) -> None:
    """One element is added as it would be in a vector of any length, at any place."""
    xs = unlike(3, sum(parts), "float32")

    def one_rank(comm: Communicator) -> bytes:
        pieces = np.split(xs[comm.rank], np.cumsum(parts)[:-1])
        return b"".join(comm.allreduce(piece, reproducible=True).tobytes() for piece in pieces)

    with World(3) as world:
        assert set(world.run(one_rank)) == {reduce(np.add, xs).tobytes()}


def test_the_bits_do_not_depend_on_who_comes_first() -> None:
    xs, rng = unlike(4, 500, "float32"), random.Random(7)
    right = reduce(np.add, xs).tobytes()
    with World(4) as world:
        for _ in range(20):
            order = rng.sample(range(4), 4)
            may_go = [threading.Event() for _ in range(4)]
            may_go[order[0]].set()

            def one_rank(comm: Communicator, order: list[int] = order, may_go: list[Any] = may_go) -> bytes:
                assert may_go[comm.rank].wait(20)
                handle = comm.start("allreduce", xs[comm.rank], reproducible=True)
                place = order.index(comm.rank) + 1
                if place < 4:
                    may_go[order[place]].set()
                return handle.wait(20).tobytes()

            assert set(world.run(one_rank)) == {right}


@pytest.mark.parametrize("root", range(4))
def test_a_reduction_to_a_root_has_the_same_bits_on_all_links(root: int) -> None:
    xs = unlike(4, 300, "float32")
    bits = set()
    for links in LINKS:
        with World(4, links) as world:
            bits.add(world.run(lambda comm: comm.reduce(xs[comm.rank], root, reproducible=True))[root].tobytes())
            with pytest.raises(ConfigError, match="from rank 0"):
                world.run(lambda comm: comm.reduce(xs[comm.rank], root, algorithm="ring", reproducible=True))
    assert len(bits) == 1


@pytest.mark.parametrize("root", list(range(4)))
def test_a_reduction_to_a_root_has_the_same_bits_wherever_the_root_is(root: int) -> None:
    xs = unlike(4, 300, "float32")
    with World(4) as world:
        result = world.run(lambda comm: comm.reduce(xs[comm.rank], root, reproducible=True))[root]
    assert result.tobytes() == reduce(np.add, xs).tobytes()


def test_the_parts_of_a_reduction_have_the_same_bits_on_all_links() -> None:
    xs = unlike(4, 400, "float32")
    bits = set()
    for links in LINKS:
        with World(4, links) as world:
            results = world.run(lambda comm: comm.reduce_scatter(xs[comm.rank], reproducible=True))
            bits.add(b"".join(result.tobytes() for result in results))
            with pytest.raises(ConfigError, match="from rank 0"):
                world.run(lambda comm: comm.reduce_scatter(xs[comm.rank], algorithm="ring", reproducible=True))
    assert len(bits) == 1


def test_the_parts_of_a_reduction_have_the_bits_of_the_whole() -> None:
    xs = unlike(4, 400, "float32")
    with World(4) as world:
        results = world.run(lambda comm: comm.reduce_scatter(xs[comm.rank], reproducible=True))
    assert b"".join(result.tobytes() for result in results) == reduce(np.add, xs).tobytes()


def test_prefixes_have_the_same_bits_on_all_links_without_being_asked() -> None:
    """There is one algorithm for them, which keeps the order."""
    xs = unlike(5, 300, "float32")
    bits = set()
    for links in LINKS:
        with World(5, links) as world:
            bits.add(b"".join(result.tobytes() for result in world.run(lambda comm: comm.scan(xs[comm.rank]))))
    assert names("scan") == ["recursive_doubling"]
    assert len(bits) == 1
