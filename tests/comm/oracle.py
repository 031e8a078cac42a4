"""What every collective has to give, by NumPy, and how exactly."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import ml_dtypes
import numpy as np

import unisono
from unisono.comm.call import PremultipliedSum
from unisono.comm.communicator import Communicator
from unisono.schedule.catalog import algorithms

FLOATS = ("float64", "float32", "float16", "bfloat16")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
DTYPES = (*FLOATS, *INTEGERS, "bool")
UFUNCS: dict[Any, Callable[..., Any]] = {
    "sum": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum, "avg": np.add,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip
HALVED = unisono.premultiplied_sum(-0.5)
OPS = (*UFUNCS, HALVED)
CUT = ("scatter", "reduce_scatter", "alltoall")
"""Their input is cut into a part for each rank."""


def dtype_named(name: str) -> np.dtype:
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def names(collective: str) -> list[str]:
    """The algorithms in which every rank takes part."""
    return [algorithm.name for algorithm in algorithms(collective) if algorithm.name != "dedicated_servers"]


def is_defined(op: Any, dtype: str) -> bool:
    if op in ("and", "or", "xor"):
        return dtype not in FLOATS
    return dtype != "bool" if op == "avg" else op != HALVED or dtype in FLOATS


def inputs(p: int, shape: tuple[int, ...], dtype: str, seed: int = 0) -> list[np.ndarray]:
    """Integers from the whole range, so that sums overflow; floats of which products do not."""
    rng, kind = np.random.default_rng(seed), dtype_named(dtype)
    if dtype in FLOATS:
        return [(rng.uniform(0.5, 2, shape) * rng.choice([-1, 1], shape)).astype(kind) for _ in range(p)]
    if dtype == "bool":
        return [rng.integers(0, 2, shape).astype(bool) for _ in range(p)]
    bounds = np.iinfo(kind)
    return [rng.integers(bounds.min, bounds.max, shape, kind, endpoint=True) for _ in range(p)]


def reduced(op: Any, xs: list[np.ndarray]) -> np.ndarray:
    """All reduced to one; floats in 64 bits, everything else as NumPy does it."""
    if isinstance(op, PremultipliedSum):
        return reduced("sum", [x.astype(np.float64) * op.factor for x in xs])
    is_float = xs[0].dtype.name in FLOATS
    total = reduce(UFUNCS[op], [x.astype(np.float64) for x in xs] if is_float else xs)
    if op != "avg":
        return total
    return total / len(xs) if is_float else _divided_towards_zero(total, len(xs))


def _divided_towards_zero(values: np.ndarray, by: int) -> np.ndarray:
    exact = [int(v) // by if v >= 0 else -(-int(v) // by) for v in values.ravel().tolist()]
    return np.array(exact, values.dtype).reshape(values.shape)


def expected(collective: str, xs: list[np.ndarray], root: int = 0, op: Any = "sum") -> list[Any]:
    """What each rank gets."""
    p = len(xs)
    if collective in ("allreduce", "reduce", "reduce_scatter"):
        total = reduced(op, xs)
        if collective == "reduce_scatter":
            return list(np.split(total, p))
        return [total if collective == "allreduce" or rank == root else None for rank in range(p)]
    if collective == "scan":
        return [reduced(op, xs[: rank + 1]) for rank in range(p)]
    if collective == "broadcast":
        return [xs[root]] * p
    if collective in ("allgather", "gather"):
        return [np.stack(xs) if collective == "allgather" or rank == root else None for rank in range(p)]
    if collective == "scatter":
        return list(np.split(xs[root], p))
    if collective == "alltoall":
        return [np.concatenate([np.split(x, p)[rank] for x in xs]) for rank in range(p)]
    return [None] * p


def call(comm: Communicator, collective: str, x: np.ndarray, root: int = 0, op: Any = "sum", **options: Any) -> Any:
    """Make a call with this rank's input."""
    if collective == "barrier":
        return comm.barrier(**options)
    if collective == "broadcast":
        return comm.broadcast(x.copy() if comm.rank == root else np.zeros_like(x, order="C"), root, **options)
    if collective == "scatter":
        options.setdefault("out", np.empty((len(x) // comm.size, *x.shape[1:]), x.dtype))
        return comm.scatter(x if comm.rank == root else None, root, **options)
    if collective == "reduce":
        return comm.reduce(x, root, op, **options)
    if collective == "gather":
        return comm.gather(x, root, **options)
    if collective in ("allreduce", "scan", "reduce_scatter"):
        return getattr(comm, collective)(x, op, **options)
    return getattr(comm, collective)(x, **options)


def assert_right(collective: str, result: Any, right: Any, xs: list[np.ndarray], op: Any, what: object) -> None:
    """Exact, but for floats that were added or multiplied: these may be rounded once a hop, and once more at each end.

    A sum is off by at most so many halves of the last place of the largest that it could be on the way.
    """
    if right is None:
        assert result is None, what
        return
    assert (result.dtype, result.shape) == (xs[0].dtype, right.shape), what
    reduces = collective in ("allreduce", "reduce", "reduce_scatter", "scan")
    if not reduces or xs[0].dtype.name not in FLOATS or op in ("min", "max"):
        np.testing.assert_array_equal(result, right, err_msg=str(what))
        return
    roundings = len(xs) + 1
    unit = float(ml_dtypes.finfo(xs[0].dtype).eps) / 2
    largest = np.abs(right) if op == "prod" else sum(np.abs(x.astype(np.float64)) for x in xs).max(initial=0)
    error = np.abs(result.astype(np.float64) - right)
    assert (error <= 1.01 * roundings * unit * largest).all(), what
