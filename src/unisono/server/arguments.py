"""What a caller says of a table, and gives it: checked here, before anything is sent."""

from __future__ import annotations

import os
from math import isfinite
from typing import Any

import numpy as np

from ..comm.arguments import real, whole
from ..errors import ConfigError
from ..values import nearest
from .consistency import KINDS, LOOSEST, Consistency

# The numbers of native/base/dtype.hpp.
DTYPES = (
    "float64", "float32", "float16", "bfloat16", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32",
    "uint64",
)  # fmt: skip
WIRES = ("float32", "float64", "float16", "bfloat16")
LONGEST_NAME = 256  # bytes, as native/server/spec.cpp has it
LONGEST_PATH = 4096  # bytes, as native/server/markings.cpp has it
WIDEST = 65536
MOST_ELEMENTS = 1 << 60
LARGEST_SEED = (1 << 64) - 1


def name_of_table(name: Any) -> str:
    if not isinstance(name, str):
        raise ConfigError(f"the name of a table is a text, not {name!r}")
    if len(name.encode(errors="replace")) > LONGEST_NAME:
        raise ConfigError(f"table {name[:20]!r}…: a name has up to {LONGEST_NAME} bytes, not {len(name.encode())}")
    return name


def path_of_snapshot(directory: Any) -> str:
    try:
        path = os.fspath(directory)
    except TypeError:
        path = None
    if not isinstance(path, str) or not 0 < len(os.fsencode(path)) <= LONGEST_PATH or "\0" in path:
        raise ConfigError(
            f"a snapshot has a directory, with a path of up to {LONGEST_PATH} bytes, not {directory!r:.60}"
        )
    return path


def checked_consistency(table: str, given: Any) -> Consistency:
    valid = "bsp, ssp(clocks), essp(clocks) or asynchronous, of unisono.server"
    if not isinstance(given, Consistency):
        of_function = f"; {given.__name__} takes a bound: {given.__name__}(3)" if callable(given) else ""
        raise ConfigError(f"table {table!r}: consistency={given!r}: valid is {valid}{of_function}")
    if given.kind not in KINDS:
        raise ConfigError(f"table {table!r}: consistency={given!r}: valid is {valid}{nearest(str(given.kind), KINDS)}")
    bound = whole(given.bound, f"table {table!r}: the bound of {given.kind}")
    if not 0 <= bound <= LOOSEST:
        raise ConfigError(f"table {table!r}: {given.kind}({bound}): valid is a bound of 0 to {LOOSEST} clocks")
    return Consistency(given.kind, bound)


def dtype_of(table: str, dtype: Any) -> np.dtype:
    kind: np.dtype | None
    try:
        kind = np.dtype(dtype)
    except (TypeError, ValueError):
        kind = None
    if kind is None or str(kind) not in DTYPES:
        name = str(dtype if kind is None else kind)
        raise ConfigError(f"table {table!r}: {name} is not one of {', '.join(DTYPES)}{nearest(name, DTYPES)}")
    return kind


def wire_of(table: str, wire: Any, dtype: np.dtype) -> str:
    """How values travel: as they are, unless it is said."""
    if wire is None:
        return str(dtype)
    name = wire if isinstance(wire, str) else _name_of_type(wire)
    if name not in DTYPES:
        meant = {"fp16": "float16", "half": "float16", "bf16": "bfloat16", "fp32": "float32"}.get(name)
        near = f"; did you mean {meant!r}?" if meant else nearest(name, WIRES)
        raise ConfigError(f"table {table!r}: wire={wire!r}: valid is one of {', '.join(WIRES)}{near}")
    return name


def _name_of_type(wire: Any) -> str:
    try:
        return str(np.dtype(wire))
    except (TypeError, ValueError):
        return repr(wire)


def shape_of(table: str, shape: Any) -> tuple[int, ...]:
    sizes = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    result = tuple(whole(size, f"table {table!r}: shape={shape!r} is no shape: each of its sizes") for size in sizes)
    elements = 1
    for size in result:
        elements *= size
        if size < 0 or elements > MOST_ELEMENTS:
            raise ConfigError(
                f"table {table!r}: shape={shape!r} is no shape: sizes are 0 or more, 2**60 together at most"
            )
    return result


def width_of(table: str, width: Any) -> int:
    result = whole(width, f"table {table!r}: width={width!r}: it")
    if not 1 <= result <= WIDEST:
        raise ConfigError(f"table {table!r}: width={width!r}: valid is 1 to {WIDEST}")
    return result


def seed_of(table: str, seed: Any) -> int:
    result = whole(seed, f"table {table!r}: seed")
    if not 0 <= result <= LARGEST_SEED:
        raise ConfigError(f"table {table!r}: seed={seed!r}: valid is 0 to 2**64 - 1")
    return result


def scale_of(table: str, scale: Any) -> float:
    result = real(scale, f"table {table!r}: scale")
    if not isfinite(result):
        raise ConfigError(f"table {table!r}: scale is a finite number, not {scale!r}")
    return result


def start_of(table: str, init: Any, dtype: np.dtype) -> float:
    """The one number with which all values begin; a description has it as a float64."""
    if isinstance(init, (bool, np.bool_)) or not isinstance(init, (int, float, np.integer, np.floating)):
        raise ConfigError(f"table {table!r}: init={init!r} is neither 'uniform', a number nor an array")
    if dtype.kind not in "iu":
        return float(init)
    exact = int(init) if isfinite(init) else None
    limits = np.iinfo(dtype)
    if exact is None or exact != init or not limits.min <= exact <= limits.max:
        raise ConfigError(f"table {table!r}: init={init!r} is no {dtype}")
    if int(float(exact)) != exact:
        raise ConfigError(f"table {table!r}: init={init!r} has more digits than a float64: give it as an array")
    return float(exact)


def converted(table: str, what: str, given: Any, dtype: np.dtype) -> np.ndarray:
    """As an array of the table's type, contiguous. Numbers may be rounded to fewer digits; what would become other
    numbers is refused."""
    array = np.asarray(given)
    if array.dtype == dtype:
        return np.asarray(array, order="C")
    if array.size == 0:
        return np.empty(array.shape, dtype)
    if array.dtype.kind not in "biuf" and array.dtype.name != "bfloat16":
        raise ConfigError(f"table {table!r}: {what} of {array.dtype}, where numbers of {dtype} are needed")
    if dtype.kind in "iu" and not _are_whole(array, dtype):
        raise ConfigError(f"table {table!r}: {what} of {array.dtype} has values that are no {dtype}")
    return array.astype(dtype, order="C")


def _are_whole(array: np.ndarray, dtype: np.dtype) -> bool:
    """Can this type have all of them?"""
    if array.dtype.kind == "b":
        return True
    limits = np.iinfo(dtype)
    if array.dtype.kind in "iu":
        return limits.min <= int(array.min()) and int(array.max()) <= limits.max
    low, high = float(array.min()), float(array.max())
    if not (isfinite(low) and isfinite(high)):  # NaN is both
        return False
    return limits.min <= int(low) and int(high) <= limits.max and bool((np.trunc(array) == array).all())


def checked_keys(keys: Any) -> np.ndarray:
    """One row of whole numbers that an int64 can have."""
    try:
        array = np.asarray(keys)
    except (ValueError, OverflowError):
        array = np.empty((0, 0))
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise ConfigError(f"keys are one row of whole numbers (int64), not {array.dtype} of shape {array.shape}")
    if array.dtype == np.uint64 and array.size and int(array.max()) >= 1 << 63:
        raise ConfigError(f"keys are int64: {array.max()} is more than 2**63 - 1")
    return np.ascontiguousarray(array, np.int64)


def checked_target(table: str, out: Any, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Where values go: this array, or a new one."""
    if out is None:
        return np.empty(shape, dtype)
    wanted = f"table {table!r}: out has to be a writeable, contiguous array of {dtype} {shape}"
    if not isinstance(out, np.ndarray):
        raise ConfigError(f"{wanted}, not a {type(out).__name__}")
    if out.shape != shape or out.dtype != dtype:
        raise ConfigError(f"{wanted}, not {out.dtype} {out.shape}")
    if not out.flags.writeable:
        raise ConfigError(f"{wanted}; this one is read-only")
    if not out.flags.c_contiguous:
        raise ConfigError(f"{wanted}; this one has strides of {out.strides} bytes: give a copy in C order")
    return out
