"""The caller's arrays: NumPy, torch, lists, and whatever speaks the buffer protocol or DLPack."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._native import Inbox
from ..errors import ConfigError
from .memory import empty

CODES = {
    name: code
    for code, name in enumerate(
        ("float64", "float32", "float16", "bfloat16", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32",
         "uint64", "bool")
    )
}  # fmt: skip
"""The element types, numbered as in native/base/dtype.hpp."""


class Array(NamedTuple):
    """Contiguous memory of one element type, and what the caller calls it."""

    values: NDArray[Any]  # bfloat16 of torch appears as uint16
    dtype: str
    origin: Any

    @property
    def address(self) -> int:
        return int(self.values.ctypes.data)

    @property
    def code(self) -> int:
        return CODES[self.dtype]

    def like(self, shape: tuple[int, ...], inbox: Inbox | None = None) -> Array:
        """A new array of the same kind, not filled."""
        return Array(empty(inbox, shape, self.values.dtype), self.dtype, None)

    def given_back(self, to: Array) -> Any:
        """In the form that the caller handed something in: list for list, tensor for tensor."""
        if self.origin is not None:
            return self.origin
        if isinstance(to.origin, (list, tuple, int, float)):
            return self.values.tolist()
        return _tensor(self.values, self.dtype) if _is_torch(to.origin) else self.values


def readable(x: Any) -> Array:
    """An array to read from; copied if it is not contiguous."""
    values, dtype = _values(x)
    _require(dtype)
    return Array(np.ascontiguousarray(values).reshape(values.shape), dtype, x)


def writable(x: Any, what: str = "out") -> Array:
    """An array to write to, in place."""
    if isinstance(x, (list, tuple, int, float)):
        raise ConfigError(f"{what} has to be an array that can be written to, not a {type(x).__name__}")
    values, dtype = _values(x)
    _require(dtype)
    if not values.flags.c_contiguous:
        raise ConfigError(f"{what} is not contiguous; receive into a contiguous array and copy from it")
    if not values.flags.writeable:
        raise ConfigError(f"{what} is read-only")
    return Array(values, dtype, x)


def new_array(inbox: Inbox | None, shape: tuple[int, ...], dtype: Any) -> Any:
    """An array or, for a dtype of torch's, a tensor; not filled, and shared if there is an inbox."""
    if type(dtype).__module__.partition(".")[0] == "torch":
        name = str(dtype).removeprefix("torch.")
        _require(name)
        return _tensor(empty(inbox, shape, np.dtype("uint16" if name == "bfloat16" else name)), name)
    try:
        kind = np.dtype(dtype)
    except TypeError as error:
        raise ConfigError(f"{dtype!r} is no type of elements: {error}") from None
    _require(kind.name)
    return empty(inbox, shape, kind)


def _require(name: str) -> None:
    if name not in CODES:
        raise ConfigError(f"elements of type {name} cannot be communicated; these can: {', '.join(CODES)}")


def _tensor(values: NDArray[Any], dtype: str) -> Any:
    torch = sys.modules["torch"]
    tensor = torch.from_numpy(values)
    return tensor.view(torch.bfloat16) if dtype == "bfloat16" else tensor


def _values(x: Any) -> tuple[NDArray[Any], str]:
    if _is_torch(x):
        return _from_torch(x)
    if isinstance(x, np.ndarray):
        return x, x.dtype.name
    if isinstance(x, (list, tuple, int, float)):
        values = np.array(x)
        if values.dtype == object:
            raise ConfigError("a ragged or mixed list cannot be sent; the *_object calls send any object")
        return values, values.dtype.name
    device = getattr(x, "__dlpack_device__", None)
    if device is not None and device()[0] != 1:  # kDLCPU
        raise ConfigError(f"a {type(x).__name__} on device {device()} cannot be sent; bring it to the CPU first")
    try:
        values = np.from_dlpack(x) if device is not None else np.asarray(memoryview(x))
    except (TypeError, ValueError, BufferError, RuntimeError) as error:
        raise ConfigError(f"a {type(x).__name__} cannot be sent: {error}") from error
    return values, values.dtype.name


def _is_torch(x: Any) -> bool:
    return type(x).__module__.partition(".")[0] == "torch" and hasattr(x, "data_ptr")


def _from_torch(x: Any) -> tuple[NDArray[Any], str]:
    if x.device.type != "cpu":
        raise ConfigError(f"a tensor on device {x.device} cannot be sent; bring it to the CPU first: x.cpu()")
    torch = sys.modules["torch"]
    x = x.detach()
    if x.dtype is torch.bfloat16:
        return x.view(torch.uint16).numpy(), "bfloat16"
    return x.numpy(), str(x.dtype).removeprefix("torch.")
