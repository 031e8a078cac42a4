"""Every algorithm of every collective, on real links, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.comm.world import LINKS, World

from unisono.comm.communicator import Communicator
from unisono.errors import ConfigError
from unisono.schedule.catalog import algorithms

CATALOGUE = [a for a in algorithms() if a.name != "dedicated_servers"]


def inputs(p: int, shape: tuple[int, ...], dtype: Any, seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.integers(0, 100, shape).astype(dtype) for _ in range(p)]


def expected(collective: str, xs: list[np.ndarray], root: int) -> list[Any]:
    p, total = len(xs), sum(xs[1:], xs[0])
    if collective == "allreduce":
        return [total] * p
    if collective == "reduce":
        return [total if r == root else None for r in range(p)]
    if collective == "broadcast":
        return [xs[root]] * p
    if collective == "scan":
        return list(np.cumsum(np.stack(xs), axis=0, dtype=xs[0].dtype))
    if collective == "allgather":
        return [np.stack(xs)] * p
    if collective == "gather":
        return [np.stack(xs) if r == root else None for r in range(p)]
    if collective == "scatter":
        return list(np.split(xs[root], p))
    if collective == "reduce_scatter":
        return list(np.split(total, p))
    if collective == "alltoall":
        return [np.concatenate([np.split(x, p)[r] for x in xs]) for r in range(p)]
    return [None] * p


def call(comm: Communicator, collective: str, name: str | None, x: np.ndarray, root: int) -> Any:
    if collective == "barrier":
        return comm.barrier(algorithm=name)
    if collective == "broadcast":
        return comm.broadcast(x.copy() if comm.rank == root else np.zeros_like(x), root, algorithm=name)
    if collective == "scatter":
        out = np.empty((x.shape[0] // comm.size, *x.shape[1:]), x.dtype)
        return comm.scatter(x if comm.rank == root else None, root, out=out, algorithm=name)
    if collective in ("reduce", "gather"):
        return getattr(comm, collective)(x, root, algorithm=name)
    return getattr(comm, collective)(x, algorithm=name)


def run_one(collective: str, name: str, xs: list[np.ndarray], root: int) -> Callable[[Communicator], Any]:
    return lambda comm: call(comm, collective, name, xs[comm.rank], root)


def run_in_place(name: str, xs: list[np.ndarray]) -> Callable[[Communicator], Any]:
    return lambda comm: comm.allreduce(xs[comm.rank], out=xs[comm.rank], algorithm=name)


@pytest.mark.parametrize("links", LINKS)
@pytest.mark.parametrize("algorithm", CATALOGUE, ids=lambda a: f"{a.collective.name}-{a.name}")
def test_an_algorithm_gives_what_numpy_gives(algorithm, links: str) -> None:
    collective = algorithm.collective.name
    for p in (1, 2, 3, 4, 5, 8):
        with World(p, links) as world:
            for length, dtype in ((p * 7, np.float32), (p * 2000, np.int64), (0, np.float64)):
                root = (length + 1) % p
                xs = inputs(p, (length,), dtype)
                results = world.run(run_one(collective, algorithm.name, xs, root))
                for result, right in zip(results, expected(collective, xs, root), strict=True):
                    np.testing.assert_array_equal(result, right)


@pytest.mark.parametrize("links", LINKS)
@pytest.mark.parametrize("name", [a.name for a in CATALOGUE if a.collective.name == "allreduce"])
def test_allreduce_works_in_place_and_with_uneven_blocks(name: str, links: str) -> None:
    for p in (2, 3, 5):
        with World(p, links) as world:
            for length in (1, p - 1, 1000 + p // 2):
                xs = inputs(p, (length,), np.float64)
                copies = [x.copy() for x in xs]
                world.run(run_in_place(name, copies))
                for copy in copies:
                    np.testing.assert_array_equal(copy, sum(xs))


@pytest.mark.parametrize("dtype", ["f8", "f4", "f2", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?"])
@pytest.mark.parametrize("op", ["sum", "prod", "min", "max", "and", "or", "xor", "avg"])
def test_every_operator_on_every_type(op: str, dtype: str) -> None:
    functions = {"sum": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and,
                 "or": np.bitwise_or, "xor": np.bitwise_xor, "avg": np.add}  # fmt: skip
    xs = [x % 3 for x in inputs(3, (257,), np.int64)]
    xs = [x.astype(dtype) for x in xs]
    refused = (op in ("and", "or", "xor") and dtype[0] == "f") or (op == "avg" and dtype == "?")
    with World(3) as world:
        if refused:
            with pytest.raises(ConfigError, match="not defined"):
                world.run(lambda comm: comm.allreduce(xs[comm.rank], op))
            return
        results = world.run(lambda comm: comm.allreduce(xs[comm.rank], op))
    right = functions[op](functions[op](xs[0], xs[1]), xs[2])
    if op == "avg":
        right = right / 3 if dtype[0] == "f" else right // 3
        np.testing.assert_allclose(results[0], right.astype(dtype), rtol=1e-3)
    else:
        np.testing.assert_array_equal(results[0], right.astype(dtype))


def test_the_lectures_program_runs_as_printed() -> None:
    lists = [[1, 2, 3], [1, 0, 1]]
    with World(2) as world:
        assert world.run(lambda comm: comm.allreduce(lists[comm.rank], op=sum)) == [[2, 2, 4], [2, 2, 4]]


def test_bytes_on_the_links_are_those_of_the_schedule() -> None:
    from unisono.interpret.price import price
    from unisono.schedule.catalog import find

    p, n = 5, 1003
    with World(p, "mixed") as world:
        world.run(lambda comm: comm.allreduce(np.ones(n), algorithm="ring"))
        sent = [sum(comm.stats()["sent"]) for comm in world.ranks]
    schedule = find("allreduce", "ring").schedule(p)
    assert sent == price(schedule, n * 8, layout=schedule.layout(n * 8, 8)).sent.tolist()


def test_large_vectors_stream_through_small_rings() -> None:
    xs = inputs(4, (1_000_003,), np.float32)
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
            results = world.run(run_in_place(name, xs))
        assert len({result.tobytes() for result in results}) == 1
