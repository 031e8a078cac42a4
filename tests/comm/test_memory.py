"""Arrays in shared memory: lent to the other ranks, recycled, and no different otherwise."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.comm.world import World

from unisono.comm.communicator import Communicator
from unisono.errors import ConfigError, UnisonoError
from unisono.schedule.catalog import algorithms

REDUCTIONS = [a.name for a in algorithms("allreduce") if a.name != "dedicated_servers"]


def filled(array: np.ndarray, values: np.ndarray) -> np.ndarray:
    array[...] = values
    return array


@pytest.mark.parametrize("links", ["direct", "staged"])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_lent_and_private_arrays_work_together(name: str, links: str) -> None:
    length, p = 3001, 3
    xs = [np.arange(length, dtype=np.float64) * (rank + 1) for rank in range(p)]

    def call(comm: Communicator, lends: int, in_place: bool) -> Any:
        empty = comm.empty if (lends >> comm.rank) & 1 else np.empty
        x = filled(empty(length, np.float64), xs[comm.rank])
        out = x if in_place else empty(length, np.float64)
        return comm.allreduce(x, out=out, algorithm=name)

    with World(p, links) as world:
        for lends in range(2**p):
            for in_place in (False, True):
                for result in world.run(lambda comm, lends=lends, in_place=in_place: call(comm, lends, in_place)):
                    np.testing.assert_array_equal(result, sum(xs))


@pytest.mark.parametrize("links", ["direct", "staged"])
def test_gathered_windows_are_right_for_lent_and_private_arrays(links: str) -> None:
    length, p = 200_001, 3  # windows, the last of which is not whole; results that are written past the caches
    xs = [np.arange(length, dtype=np.float64) + rank * length for rank in range(p)]

    def call(comm: Communicator, lends: int) -> Any:
        empty = comm.empty if (lends >> comm.rank) & 1 else np.empty
        x = filled(empty(length, np.float64), xs[comm.rank])
        return comm.allgather(x, out=filled(empty(p * length, np.float64), np.float64(-1)))

    with World(p, links) as world:
        for lends in range(2**p):
            for result in world.run(lambda comm, lends=lends: call(comm, lends)):
                np.testing.assert_array_equal(result, np.arange(p * length, dtype=np.float64))


@pytest.mark.parametrize("dtype", ["float64", "float16", "int8", "uint64", "bool"])
def test_an_array_has_the_shape_and_type_that_was_asked_for(dtype: str) -> None:
    with World(2) as world:
        for shape in ((), (0,), (5,), (100, 200), (3, 0, 4)):
            array = world.ranks[0].empty(shape, dtype)
            assert array.shape == shape
            assert array.dtype == np.dtype(dtype)
            assert array.flags.writeable
            assert array.flags.c_contiguous
        assert world.ranks[0].empty(7).shape == (7,)


def test_an_array_of_nonsense_is_refused() -> None:
    with World(1) as world:
        comm = world.ranks[0]
        with pytest.raises(ConfigError, match="shape"):
            comm.empty((3, -1))
        with pytest.raises(ConfigError, match="complex128"):
            comm.empty(3, "complex128")
        with pytest.raises(ConfigError, match="no type of elements"):
            comm.empty(3, "floaty")
        with pytest.raises(UnisonoError, match="shared memory"):
            comm.empty(1 << 40, "int8")


def test_an_array_outlives_its_communicator() -> None:
    with World(2) as world:
        arrays = [filled(comm.empty(10_000), np.float32(3)) for comm in world.ranks]
    del world
    gc.collect()
    assert all((array == 3).all() for array in arrays)


def test_the_memory_of_a_result_is_used_again() -> None:
    def addresses(comm: Communicator) -> set[int]:
        x = np.ones(100_000)
        return {int(comm.allreduce(x).ctypes.data) for _ in range(5)}

    with World(2) as world:
        assert all(len(seen) == 1 for seen in world.run(addresses))


def test_results_that_are_kept_are_not_overwritten() -> None:
    def results(comm: Communicator) -> list[np.ndarray]:
        return [comm.allreduce(np.full(50_000, number)) for number in range(5)]

    with World(2) as world:
        for kept in world.run(results):
            assert [int(result[0]) for result in kept] == [0, 2, 4, 6, 8]


def test_memory_goes_back_to_the_system_with_the_last_array() -> None:
    def shared_kilobytes() -> int:
        status = Path("/proc/self/status").read_text()
        return int(status.split("RssShmem:")[1].split()[0])

    before = shared_kilobytes()
    with World(1) as world:
        array = filled(world.ranks[0].empty(10_000_000), np.float32(1))
        assert shared_kilobytes() - before > 30_000
    del array, world
    gc.collect()
    assert shared_kilobytes() - before < 10_000


def test_a_torch_dtype_gives_a_tensor() -> None:
    torch = pytest.importorskip("torch")
    with World(2) as world:
        for dtype in (torch.float32, torch.bfloat16, torch.int64):
            tensors = [comm.empty((40, 100), dtype).fill_(2) for comm in world.ranks]
            assert all(tensor.dtype is dtype for tensor in tensors)
            results = world.run(lambda comm, tensors=tensors: comm.allreduce(tensors[comm.rank]))
            assert all(result.dtype is dtype and bool((result == 4).all()) for result in results)


@pytest.mark.parametrize("links", ["auto", "staged"])
@pytest.mark.parametrize("collective", ["allreduce", "allgather", "broadcast", "reduce_scatter"])
def test_results_are_right_whichever_way_private_arrays_go(collective: str, links: str) -> None:
    """Calls try all ways at first, with several places of the stage each."""
    calls, length, p = 150, 12_000, 3

    def run(comm: Communicator) -> None:
        rng = np.random.default_rng(1)
        for _ in range(calls):
            xs = rng.integers(-99, 99, (p, length)).astype(np.float32)
            mine, total = xs[comm.rank].copy(), xs.sum(0)
            part = slice(comm.rank * length // p, (comm.rank + 1) * length // p)
            expected = {"allgather": xs.ravel(), "broadcast": xs[0], "reduce_scatter": total[part]}
            out = np.empty_like(expected.get(collective, total))
            call = getattr(comm, collective)
            call(mine, out=out) if collective != "broadcast" else call(mine)
            np.testing.assert_array_equal(mine if collective == "broadcast" else out, expected.get(collective, total))

    with World.joined(p, links) as world:
        world.run(run)
