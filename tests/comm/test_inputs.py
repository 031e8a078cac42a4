"""What may be handed in, and what comes back for it."""

from __future__ import annotations

import array
import ctypes
import mmap
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tests.comm.world import World

from unisono.comm.communicator import Communicator
from unisono.errors import ConfigError


class OnlyDLPack:
    """An array of another library."""

    def __init__(self, values: np.ndarray, device: tuple[int, int] = (1, 0)) -> None:
        self.values, self.device = values, device

    def __dlpack__(self, **options: Any) -> Any:
        return self.values.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device


def mapped() -> mmap.mmap:
    memory = mmap.mmap(-1, 16)
    memory[:3] = b"\1\2\3"
    return memory


@pytest.mark.parametrize(
    "x",
    [
        array.array("d", [1, 2, 3]),
        memoryview(np.arange(6.0))[::2],
        (ctypes.c_int32 * 3)(1, 2, 3),
        memoryview(b"\1\2\3"),
        OnlyDLPack(np.arange(3.0)),
        np.array([1, 2, 3], ">i4"),
        np.array([1, 2, 3], ">f8")[::-1],
        np.array([1, 2], ml_dtypes.bfloat16),
    ],
    ids=lambda x: type(x).__name__,
)
def test_what_holds_numbers_is_read_and_an_array_comes_back(x: Any) -> None:
    values = x.values if isinstance(x, OnlyDLPack) else np.asarray(x)
    with World(2) as world:
        for result in world.run(lambda comm: comm.allreduce(x)):
            assert type(result) is np.ndarray
            assert result.dtype.isnative
            np.testing.assert_array_equal(result, 2 * values)


@pytest.mark.parametrize("x", [array.array("f", [1, 2, 3]), bytearray(b"\1\2\3"), mapped(), np.ones(3)], ids=str)
def test_what_can_be_written_to_is_filled(x: Any) -> None:
    right = np.asarray(memoryview(x)).copy()
    with World(1) as world:
        assert world.ranks[0].broadcast(x) is x
        assert world.ranks[0].allreduce(x, "max", out=x) is x
    np.testing.assert_array_equal(np.asarray(memoryview(x)), right)


def test_lists_and_numbers_come_back_as_lists_and_numbers_from_every_call() -> None:
    def all_calls(comm: Communicator) -> list[Any]:
        other = 1 - comm.rank
        return [
            comm.allreduce(2), comm.allreduce(1.5), comm.allreduce((1, 2)), comm.allreduce([[1], [2]]),
            comm.allreduce(True), comm.broadcast([comm.rank, 7], 1), comm.broadcast(comm.rank, 1), comm.scan([1]),
            comm.allgather(comm.rank), comm.allgatherv([comm.rank]), comm.reduce_scatter([1, 2]),
            comm.alltoall([comm.rank, 5]), comm.alltoallv([8, 9], [1, 1]), comm.sendrecv([comm.rank], other, other),
        ]  # fmt: skip

    def on_root(comm: Communicator) -> list[Any]:
        out = None if comm.rank == 0 else np.empty(1, np.int64)
        return [comm.reduce([3]), comm.gather(comm.rank), comm.gatherv([4]),
                comm.scatter([5, 6] if comm.rank == 0 else None, out=out)]  # fmt: skip

    same = [4, 3.0, [2, 4], [[2], [4]], True, [1, 7], 1]
    with World(2) as world:
        assert world.run(all_calls) == [
            [*same, [1], [0, 1], [0, 1], [2], [0, 1], [8, 8], [1]],
            [*same, [2], [0, 1], [0, 1], [4], [5, 5], [9, 9], [0]],
        ]
        assert world.run(on_root) == [[[6], [0, 1], [4, 4], [5]], [None, None, None, np.array([6])]]


def test_numpys_numbers_stay_numpys() -> None:
    with World(2) as world:
        for kind in (np.float32, np.int16, np.float64, np.bool_):
            for result in world.run(lambda comm, kind=kind: comm.allreduce(kind(1), "max")):
                assert type(result) is kind
                assert result == 1
        assert [type(x) for x in world.run(lambda comm: comm.broadcast(np.int8(comm.rank)))] == [np.int8] * 2


@pytest.mark.parametrize(
    ("x", "named"),
    [
        (np.ones(2, complex), "complex128"),
        (1j, "complex"),
        (np.ones(2, "M8[s]"), "datetime64"),
        (np.datetime64("2020"), "datetime64"),
        (np.ones(2, "m8[s]"), "timedelta64"),
        (np.array(["a"]), "str"),
        (np.array([b"a"]), "bytes"),
        (np.array([None]), "object"),
        (np.ones(2, "f8,i4"), "void"),
        (np.ones(2, np.longdouble), "float128|longdouble"),
        (np.ma.array([1, 2], mask=[0, 1]), "MaskedArray .* its mask would be lost"),
        (np.ones(2, ml_dtypes.float8_e4m3fn), "float8_e4m3fn"),
        (OnlyDLPack(np.ones(2), (2, 3)), r"OnlyDLPack on device \(2, 3\)"),
        (None, "NoneType"),
        ("text", "str"),
        ({1: 2}, "dict"),
        ([[1], [2, 3]], "list .* inhomogeneous"),
        ([1, None], "list .* no numbers"),
        ([2**70], "list .* too large"),
        (iter([1]), "iterator"),
    ],
    ids=lambda x: type(x).__name__,
)
def test_what_is_not_made_of_such_numbers_is_refused_by_name(x: Any, named: str) -> None:
    with World(1) as world:
        comm = world.ranks[0]
        for call in (comm.allreduce, comm.broadcast, comm.allgather, comm.alltoall, lambda x: comm.recv(0, out=x)):
            with pytest.raises(ConfigError, match=f"(?s){named}|has to be an array"):
                call(x)
        assert comm.allreduce(1) == 1


@pytest.mark.parametrize(
    ("out", "message"),
    [
        (np.ones(2), "2 elements of float64, the result has 3 of float64"),
        (np.ones(3, np.float32), "3 elements of float32"),
        (np.ones(3, ">f8"), ">f8, with its bytes in the other order"),
        (bytes(24), "read-only"),
        (np.ones((3, 2))[:, 0], "not contiguous"),
        ([0.0] * 3, "not a list"),
        (np.float64(1), "not a float64"),
        (OnlyDLPack(np.ones(3), (2, 0)), "device"),
        ("out", "str"),
    ],
    ids=lambda x: type(x).__name__,
)
def test_an_output_that_does_not_fit_is_refused_on_every_rank_and_calls_go_on(out: Any, message: str) -> None:
    def refused_and_well_again(comm: Communicator) -> list[int]:
        with pytest.raises(ConfigError, match=message):
            comm.allreduce(np.ones(3), out=out)
        return comm.allreduce([1])

    with World(2) as world:
        assert world.run(refused_and_well_again) == [[2], [2]]
