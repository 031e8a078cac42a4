"""What a caller says is checked before anything is sent: an error teaches, and what is exact is accepted."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unisono.errors import ConfigError
from unisono.server import Consistency, ParameterServers, asynchronous, bsp, connect, essp, ssp


@pytest.fixture
def servers() -> Iterator[ParameterServers]:
    with connect(deadline=20) as connected:
        yield connected


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"consistency": "bsp"}, r"valid is bsp, ssp\(clocks\)"),
        ({"consistency": ssp}, r"ssp takes a bound: ssp\(3\)"),
        ({"consistency": Consistency("sspp", 3)}, "did you mean 'ssp'"),
        ({"consistency": Consistency("ssp", -1)}, "a bound of 0 to"),
        ({"consistency": Consistency("ssp", 1.5)}, "is a whole number"),  # type: ignore[arg-type]
        ({"seed": -1}, "valid is 0 to"),
        ({"seed": 1.5}, "seed is a whole number"),
        ({"shape": 2**70}, "is no shape"),
        ({"shape": (2**40, 2**40)}, "is no shape"),
        ({"shape": 2.5}, "is no shape"),
        ({"shape": "3"}, "is no shape"),
        ({"shape": None, "width": 2.5}, "is a whole number"),
        ({"update": None}, "valid is one of add, "),
        ({"update": 5}, "valid is one of add, "),
        ({"update": "SGD"}, "did you mean 'sgd'"),
        ({"update": "sgd", "lr": float("nan")}, "lr is a finite number"),
        ({"update": "sgd", "lr": "0.1"}, "lr is a number"),
        ({"wire": "fp16"}, "did you mean 'float16'"),
        ({"wire": "int8"}, "only floating-point"),
        ({"wire": 7}, "valid is one of float32"),
        ({"dtype": "foo"}, "foo is not one of"),
        ({"dtype": ">f4"}, "is not one of"),
        ({"init": [1, 2]}, r"init of shape \(2,\)"),
        ({"init": np.zeros((3, 1))}, r"init of shape \(3, 1\)"),
        ({"init": None}, "neither 'uniform', a number nor an array"),
        ({"init": True}, "neither 'uniform', a number nor an array"),
        ({"init": float("nan"), "dtype": np.int32}, "is no int32"),
        ({"init": 1e30, "dtype": np.int32}, "is no int32"),
        ({"init": 2.5, "dtype": np.int32}, "is no int32"),
        ({"init": -1, "dtype": np.uint8}, "is no uint8"),
        ({"init": 2**53 + 1, "dtype": np.int64}, "give it as an array"),
        ({"init": "uniform", "scale": float("inf")}, "scale is a finite number"),
    ],
)
def test_descriptions_that_make_no_sense_are_refused(
    servers: ParameterServers, arguments: dict[str, Any], says: str
) -> None:
    with pytest.raises(ConfigError, match=says):
        servers.table("w", **{"shape": 3, **arguments})
    assert servers.table("w", 3).pull().tolist() == [0, 0, 0]  # over the same connection


def test_numbers_of_numpy_are_numbers(servers: ParameterServers) -> None:
    assert ssp(np.int64(3)) == ssp(3)  # type: ignore[arg-type]
    three = np.int64(3)
    assert servers.table("a", three, consistency=essp(np.uint8(2))).shape == (3,)  # type: ignore[arg-type]
    assert servers.table("b", (three, three), seed=np.int32(1), init="uniform").shape == (3, 3)
    assert servers.table("c", width=three).width == 3
    assert servers.table("d", 3, wire=np.float16, init=np.float32(2)).pull().tolist() == [2, 2, 2]
    assert servers.table("e", 3, init=[1, 2, 3], dtype=np.int8).pull().tolist() == [1, 2, 3]
    assert servers.table("f", 1, init=np.array([2**53 + 1]), dtype=np.int64).pull()[0] == 2**53 + 1
    assert servers.counters("g", np.int64(2)).shape == (2,)  # type: ignore[arg-type]


@pytest.mark.parametrize(("count", "says"), [(-1, "is no shape"), (1.5, "is a whole number")])
def test_counters_are_counted_in_whole_numbers(servers: ParameterServers, count: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        servers.counters("c", count)


@pytest.mark.parametrize("name", [5, None, "n" * 257, "ü" * 200])
def test_a_name_that_is_none_is_refused(servers: ParameterServers, name: Any) -> None:
    with pytest.raises(ConfigError, match="name"):
        servers.table(name, 3)
    assert servers.table("n" * 256, 3).pull().shape == (3,)


@pytest.mark.parametrize("path", ["", "x" * 5000, 5, None, b"bytes", "a\0b"])
def test_a_directory_that_is_none_is_refused(servers: ParameterServers, path: Any) -> None:
    for call in (servers.snapshot, servers.restore):
        with pytest.raises(ConfigError, match="a snapshot has a directory"):
            call(path)
    assert servers.table("w", 3).pull().shape == (3,)


def test_a_directory_may_be_a_path(servers: ParameterServers, tmp_path: Path) -> None:
    servers.snapshot(tmp_path)
    servers.restore(tmp_path)


@pytest.mark.parametrize("deadline", [-1, float("nan"), float("inf"), "5", True])
def test_a_deadline_that_is_none_is_refused(servers: ParameterServers, deadline: Any) -> None:
    table = servers.table("w", 3)
    for call in (table.pull, table.clock, servers.status, table.pull_async().wait):
        with pytest.raises(ConfigError, match="deadline"):
            call(deadline=deadline)
    assert table.pull(deadline=1e12).shape == (3,)
    table.clock(deadline=1e300)


@pytest.mark.parametrize(
    "values",
    [[1.5, 2, 3], [np.nan, 0, 0], [np.inf, 0, 0], [1e30, 0, 0], ["1", "2", "3"], ["a", "b", "c"], None, [1j, 0, 0],
     np.array([1, 2, 3], object), np.array([2**63, 0, 0], np.uint64)],
    ids=str,
)  # fmt: skip
def test_what_is_no_whole_number_is_not_counted(servers: ParameterServers, values: Any) -> None:
    counters = servers.counters("c", 3, consistency=asynchronous)
    with pytest.raises(ConfigError, match=r"of .* (where numbers of int64 are needed|values that are no int64)"):
        counters.push(values)
    assert counters.pull().tolist() == [0, 0, 0]


def test_what_is_exact_is_counted(servers: ParameterServers) -> None:
    counters = servers.counters("c", 2, consistency=asynchronous)
    for values in ([1, 2], np.array([1.0, 2.0]), np.array([1, 2], np.uint8), np.array([True, False]), (1, 1)):
        counters.push(values)
    assert counters.pull().tolist() == [5, 7]
    small = servers.table("s", 2, dtype=np.int8, consistency=asynchronous)
    small.push(np.array([100, -128]))
    for values in ([300, 0], np.array([128.0, 0])):
        with pytest.raises(ConfigError, match="no int8"):
            small.push(values)
    assert small.pull().tolist() == [100, -128]
    rows = servers.table("r", width=1, dtype=np.uint8, consistency=asynchronous)
    with pytest.raises(ConfigError, match="rows of int64 has values that are no uint8"):
        rows.push([1], [[-1]])
    floats = servers.table("f", 2, consistency=asynchronous)
    for values in ([1, 2], np.array([0.5, 0.25]), np.array([1, 0], ">f4")):
        floats.push(values)
    assert floats.pull().tolist() == [2.5, 2.25]
    with pytest.raises(ConfigError, match="of complex128"):
        floats.push(np.array([1j, 0]))


def test_keys_are_what_an_int64_can_have(servers: ParameterServers) -> None:
    table = servers.table("e", width=1, consistency=asynchronous)
    for keys in (np.array([2**63], np.uint64), [2**63], [2**64], [[1], [1, 2]], [True], ["1"], 5, [[1]]):
        with pytest.raises(ConfigError, match="keys are"):
            table.pull(keys)
    assert table.pull(np.array([2**63 - 1], np.uint64)).shape == (1, 1)
    assert table.pull([-(2**63), 2**63 - 1]).shape == (2, 1)


@pytest.mark.parametrize("consistency", [asynchronous, bsp], ids=str)
def test_a_table_may_be_one_number(servers: ParameterServers, consistency: Consistency) -> None:
    table = servers.table("scalar", (), consistency=consistency)
    table.push(np.float32(1))
    table.push(np.array(2.0))
    table.push(3)
    table.clock()
    assert table.pull().shape == ()
    assert table.pull() == 6
    assert table.push_pull(1) == 7


def test_an_array_for_values_says_what_is_wrong_with_it(servers: ParameterServers) -> None:
    table = servers.table("w", (3, 2), consistency=asynchronous)
    read_only = np.zeros((3, 2), np.float32)
    read_only.setflags(write=False)
    for out, says in (
        (read_only, "this one is read-only"),
        (np.zeros((6, 4), np.float32)[::2, ::2], "strides"),
        (np.zeros((3, 2), np.float32, order="F"), "C order"),
        ([[0, 0]] * 3, "not a list"),
        (np.zeros((3, 2)), "not float64"),
        (np.zeros((2, 3), np.float32), r"not float32 \(2, 3\)"),
    ):
        with pytest.raises(ConfigError, match=says):
            table.pull(out)
