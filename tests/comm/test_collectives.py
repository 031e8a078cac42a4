"""Every algorithm of every collective, on real links, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.comm.oracle import call, expected
from tests.comm.world import LINKS, World

from unisono.comm.communicator import Communicator
from unisono.interpret.price import price
from unisono.schedule.catalog import algorithms, find

RANKS = (1, 2, 3, 4, 5, 8)
CATALOGUE = [a for a in algorithms() if a.name != "dedicated_servers"]


def whole_numbers(p: int, length: int, dtype: Any) -> list[np.ndarray]:
    """Of which sums are exact."""
    rng = np.random.default_rng(0)
    return [rng.integers(0, 100, length).astype(dtype) for _ in range(p)]


def run_one(collective: str, name: str, xs: list[np.ndarray], root: int) -> Callable[[Communicator], Any]:
    return lambda comm: call(comm, collective, xs[comm.rank], root, algorithm=name)


@pytest.mark.soak
@pytest.mark.parametrize("links", LINKS)
@pytest.mark.parametrize("algorithm", CATALOGUE, ids=lambda a: f"{a.collective.name}-{a.name}")
def test_an_algorithm_gives_what_numpy_gives(algorithm, links: str, soak: bool) -> None:
    """Every number of ranks on some kinds of links; a soak, as well as test_matrix.py, has each on all of them."""
    collective = algorithm.collective.name
    turn = (CATALOGUE.index(algorithm) + LINKS.index(links)) % 2
    for p in RANKS if soak else RANKS[turn::2]:
        with World(p, links) as world:
            for length, dtype in ((p * 7, np.float32), (p * 2000, np.int64), (0, np.float64)):
                root = (length + 1) % p
                xs = whole_numbers(p, length, dtype)
                results = world.run(run_one(collective, algorithm.name, xs, root))
                for result, right in zip(results, expected(collective, xs, root), strict=True):
                    np.testing.assert_array_equal(result, right)


def test_the_lectures_program_runs_as_printed() -> None:
    lists = [[1, 2, 3], [1, 0, 1]]
    with World(2) as world:
        assert world.run(lambda comm: comm.allreduce(lists[comm.rank], op=sum)) == [[2, 2, 4], [2, 2, 4]]


def test_bytes_on_the_links_are_those_of_the_schedule() -> None:
    p, n = 5, 1003
    with World(p, "mixed") as world:
        world.run(lambda comm: comm.allreduce(np.ones(n), algorithm="ring"))
        sent = [sum(comm.stats()["sent"]) for comm in world.ranks]
    schedule = find("allreduce", "ring").schedule(p)
    assert sent == price(schedule, n * 8, layout=schedule.layout(n * 8, 8)).sent.tolist()


@pytest.mark.parametrize("links", ["direct", "staged"])
@pytest.mark.parametrize("name", [a.name for a in CATALOGUE if a.collective.name == "allreduce"])
def test_bytes_between_ranks_that_share_memory_are_those_of_the_schedule(name: str, links: str) -> None:
    """Who moves a block counts it: the receiver of an operand, the sender of a copy."""
    p, n = 5, 1003
    with World(p, links) as world:
        world.run(lambda comm: comm.allreduce(np.ones(n), algorithm=name))
        moved = sum(sum(comm.stats()["sent"]) + sum(comm.stats()["received"]) for comm in world.ranks)
    schedule = find("allreduce", name).schedule(p)
    assert moved == price(schedule, n * 8, layout=schedule.layout(n * 8, 8)).sent.sum()


def test_large_vectors_stream_through_small_rings() -> None:
    xs = whole_numbers(4, 1_000_003, np.float32)
    with World(4) as world:
        for result in world.run(lambda comm: comm.allreduce(xs[comm.rank])):
            np.testing.assert_array_equal(result, sum(xs[1:], xs[0]))


@pytest.mark.parametrize("links", LINKS)
@pytest.mark.parametrize("name", [a.name for a in CATALOGUE if a.collective.name == "allreduce"])
def test_allreduce_leaves_the_same_bytes_on_every_rank(name: str, links: str) -> None:
    rng = np.random.default_rng(1)
    for p, dtype in ((3, np.float32), (4, np.float16), (5, np.float64)):
        xs = [(rng.standard_normal(333) * 10 ** rng.uniform(-2, 2, 333)).astype(dtype) for _ in range(p)]
        with World(p, links) as world:
            results = world.run(lambda comm, xs=xs: comm.allreduce(xs[comm.rank], algorithm=name))
        assert len({result.tobytes() for result in results}) == 1
