"""Parts of different lengths, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.comm.world import World

from unisono.errors import ConfigError
from unisono.schedule.catalog import algorithms

COUNTS = st.integers(1, 5).flatmap(lambda p: st.lists(st.integers(0, 40), min_size=p, max_size=p))


def names(collective: str) -> list[str]:
    return [algorithm.name for algorithm in algorithms(collective)]


def parts(counts: list[int], width: int = 3) -> list[np.ndarray]:
    rng = np.random.default_rng(sum(counts))
    return [rng.integers(0, 1000, (count, width)).astype(np.float32) for count in counts]


@settings(max_examples=8)
@pytest.mark.parametrize("links", ["direct", "staged", "mixed"])
@pytest.mark.parametrize("name", names("allgather"))
@given(counts=COUNTS)
def test_allgatherv_joins_parts_of_any_length(name: str, links: str, counts: list[int]) -> None:
    xs = parts(counts)
    with World(len(counts), links) as world:
        for result in world.run(lambda comm: comm.allgatherv(xs[comm.rank], algorithm=name)):
            np.testing.assert_array_equal(result, np.concatenate(xs))


@settings(max_examples=8)
@pytest.mark.parametrize("name", names("gather"))
@given(counts=COUNTS, data=st.data())
def test_gatherv_and_scatterv_are_inverse(name: str, counts: list[int], data: st.DataObject) -> None:
    xs, p = parts(counts), len(counts)
    root = data.draw(st.integers(0, p - 1))

    def there_and_back(comm) -> np.ndarray:
        together = comm.gatherv(xs[comm.rank], root, algorithm=name)
        assert (together is None) == (comm.rank != root)
        out = np.empty_like(xs[comm.rank])
        given_counts = counts if comm.rank == root else None
        return comm.scatterv(together, given_counts, root, out=out, algorithm=name)

    with World(p) as world:
        for x, back in zip(xs, world.run(there_and_back), strict=True):
            np.testing.assert_array_equal(back, x)


@settings(max_examples=8)
@pytest.mark.parametrize("name", names("alltoall"))
@given(data=st.data(), p=st.integers(1, 5))
def test_alltoallv_sends_any_number_of_rows_to_anybody(name: str, p: int, data: st.DataObject) -> None:
    matrix = [data.draw(st.lists(st.integers(0, 20), min_size=p, max_size=p)) for _ in range(p)]
    xs = parts([sum(row) for row in matrix])
    with World(p) as world:
        results = world.run(lambda comm: comm.alltoallv(xs[comm.rank], matrix[comm.rank], algorithm=name))
    cut = [np.split(x, np.cumsum(row)[:-1]) for x, row in zip(xs, matrix, strict=True)]
    for rank, result in enumerate(results):
        np.testing.assert_array_equal(result, np.concatenate([cut[source][rank] for source in range(p)]))


def test_counts_that_do_not_fit_are_refused() -> None:
    with World(1) as world, pytest.raises(ConfigError, match="together 4; not \\[3\\]"):
        world.run(lambda comm: comm.alltoallv(np.ones(4), [3]))
