"""The caller's arrays: NumPy, torch, lists, and whatever speaks the buffer protocol or DLPack."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import ConfigError
from .memory import empty

if TYPE_CHECKING:
    from .._native import Inbox

CODES = {
    name: code
    for code, name in enumerate(
        ("float64", "float32", "float16", "bfloat16", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32",
         "uint64", "bool")
    )
}  # fmt: skip
"""The element types, numbered as in native/base/dtype.hpp."""


PLAIN = (list, tuple, int, float)
"""Python's own, which come back as lists and numbers."""

VALUES = (*PLAIN, np.generic)
"""What cannot be written to."""


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
        """In the form that the caller handed something in: list for list, number for number, tensor for tensor."""
        if self.origin is not None:
            return self.origin
        if is_plain(to.origin):
            return self.values.tolist()
        if _is_torch(to.origin):
            return _tensor(self.values, self.dtype)
        return self.values[()] if isinstance(to.origin, np.generic) else self.values


def is_plain(x: Any) -> bool:
    """Is it a list, a tuple or a number of Python's, and not one of NumPy's?"""
    return isinstance(x, PLAIN) and not isinstance(x, np.generic)


def is_value(x: Any) -> bool:
    """Is it something that cannot be filled, so that a new one is given back instead?"""
    return isinstance(x, VALUES)


def readable(x: Any) -> Array:
    """An array to read from; copied if it is not contiguous or its bytes are in another order than the CPU's."""
    values, dtype = _values(x, "sent")
    native = values if values.dtype.isnative else values.astype(values.dtype.newbyteorder("="))
    return Array(np.ascontiguousarray(native).reshape(values.shape), dtype, x)


def writable(x: Any, what: str = "out") -> Array:
    """An array to write to, in place."""
    if is_value(x):
        raise ConfigError(f"{what} has to be an array that can be written to, not a {type(x).__name__}")
    values, dtype = _values(x, "received")
    if not values.flags.c_contiguous:
        raise ConfigError(f"{what} is not contiguous; receive into a contiguous array and copy from it")
    if not values.flags.writeable:
        raise ConfigError(f"{what} is read-only; pass an array that can be written to, such as a copy of it")
    if not values.dtype.isnative:
        raise ConfigError(f"{what} is {values.dtype.str}, with its bytes in the other order than this CPU's")
    return Array(values, dtype, x)


def new_array(inbox: Inbox | None, shape: tuple[int, ...], dtype: Any) -> Any:
    """An array or, for a dtype of torch's, a tensor; not filled, and shared if there is an inbox."""
    if isinstance(dtype, getattr(sys.modules.get("torch"), "dtype", ())):
        name = str(dtype).removeprefix("torch.")
        _require(name, "communicated")
        return _tensor(empty(inbox, shape, np.dtype("uint16" if name == "bfloat16" else name)), name)
    try:
        kind = np.dtype(dtype)
    except TypeError as error:
        raise ConfigError(f"{dtype!r} is no type of elements: {error}") from None
    _require(kind.name, "communicated")
    return empty(inbox, shape, kind)


def _require(name: str, verb: str) -> None:
    if name not in CODES:
        raise ConfigError(f"elements of type {name} cannot be {verb}; these can: {', '.join(CODES)}")


def _tensor(values: NDArray[Any], dtype: str) -> Any:
    torch = sys.modules["torch"]
    tensor = torch.from_numpy(values)
    return tensor.view(torch.bfloat16) if dtype == "bfloat16" else tensor


def _values(x: Any, verb: str) -> tuple[NDArray[Any], str]:
    try:
        values, dtype = _viewed(x)
    except (TypeError, ValueError, BufferError, RuntimeError) as error:
        raise ConfigError(
            f"a {type(x).__name__} cannot be {verb}: {error} (NumPy arrays, torch tensors, lists, and what has a "
            "buffer or DLPack can; the *_object calls send any object)"
        ) from error
    _require(dtype, verb)
    return values, dtype


def _viewed(x: Any) -> tuple[NDArray[Any], str]:
    """The elements where they are, and what they are called; lists are copied."""
    if _is_torch(x):
        return _from_torch(x)
    if isinstance(x, (np.ndarray, *VALUES)):
        if hasattr(x, "mask"):
            raise TypeError("its mask would be lost; send x.filled(value)")
        values = np.asarray(x)
        if values.dtype == object and is_plain(x):
            raise TypeError("its elements are no numbers, or too large ones")
        return values, values.dtype.name
    device = getattr(x, "__dlpack_device__", None)
    if device is not None and device()[0] != 1:  # kDLCPU
        raise ConfigError(f"a {type(x).__name__} on device {device()} cannot be sent; bring it to the CPU first")
    values = np.from_dlpack(x) if device is not None else np.asarray(memoryview(x))
    return values, values.dtype.name


def _is_torch(x: Any) -> bool:
    return isinstance(x, getattr(sys.modules.get("torch"), "Tensor", ()))


def _from_torch(x: Any) -> tuple[NDArray[Any], str]:
    if x.device.type != "cpu":
        raise ConfigError(f"a tensor on device {x.device} cannot be sent; bring it to the CPU first: x.cpu()")
    torch = sys.modules["torch"]
    x = x.detach()
    dtype = str(x.dtype).removeprefix("torch.")
    if dtype == "bfloat16":
        return x.view(torch.uint16).numpy(), dtype
    return x.numpy() if dtype in CODES else np.empty(0), dtype
