"""Which gradient lies where: parameters in the order of backward, cut into buckets of one element type each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

from ..errors import ConfigError

ALIGNMENT = 64
"""Bytes: every gradient begins at a cache line."""

FLOATS = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2}
"""Bytes of an element that has an average."""


EXPRESS = 0.25
"""The part of all bytes that has priority."""


@dataclass(frozen=True)
class Parameter:
    """What has a gradient. ``names`` are several if the model uses one array under several of them."""

    names: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: str

    @property
    def name(self) -> str:
        return self.names[0]

    @property
    def elements(self) -> int:
        return prod(self.shape)

    def __str__(self) -> str:
        return f"{' = '.join(self.names)}: {self.dtype} {self.shape}"


@dataclass
class Bucket:
    """Gradients that are averaged by one call. Offsets and sizes are in elements."""

    dtype: str
    starts: dict[str, int] = field(default_factory=dict)
    elements: int = 0

    @property
    def names(self) -> list[str]:
        return list(self.starts)

    @property
    def nbytes(self) -> int:
        return self.elements * FLOATS[self.dtype]

    def append(self, name: str, elements: int) -> None:
        self.starts[name] = self.elements
        self.elements += aligned(elements, self.dtype)

    def __str__(self) -> str:
        names = self.names
        return names[0] if len(names) == 1 else f"{names[0]} … {names[-1]}"


def parameters_of(arrays: Mapping[str, Any]) -> list[Parameter]:
    """From arrays or tensors by name, in the order of forward. An array that comes twice is one parameter."""
    names: dict[int, list[str]] = {}
    for name, array in arrays.items():
        names.setdefault(id(array), []).append(name)
    firsts = {of_one[0]: tuple(of_one) for of_one in names.values()}
    found = [
        Parameter(all_names, tuple(int(extent) for extent in arrays[name].shape), dtype_name(arrays[name].dtype))
        for name, all_names in firsts.items()
    ]
    if not found:
        raise ConfigError("there is no parameter whose gradient could be averaged; pass arrays by name")
    for parameter in found:
        if parameter.dtype not in FLOATS:
            raise ConfigError(f"{parameter}: a gradient has elements of {', '.join(FLOATS)}")
    return found


def dtype_name(dtype: Any) -> str:
    """``float32`` for NumPy's and torch's type of that name, and for the name itself."""
    name = getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or str(dtype)
    return str(name).removeprefix("torch.")


def lay_out(parameters: Iterable[Parameter], bucket_bytes: int, wire: str | None = None) -> list[Bucket]:
    """Buckets of parameters in this order, in the order in which they become full.

    A bucket is closed before a gradient that would make it larger than ``bucket_bytes``; a larger gradient has one of
    its own. All have the type ``wire`` if that is given, and otherwise that of their parameters.
    """
    if bucket_bytes < 1:
        raise ConfigError(f"bucket_bytes={bucket_bytes}: a bucket has at least one byte")
    closed: list[Bucket] = []
    open_ones: dict[str, Bucket] = {}
    for parameter in parameters:
        dtype = wire or parameter.dtype
        bucket = open_ones.get(dtype)
        if bucket is not None and bucket.nbytes + parameter.elements * FLOATS[dtype] > bucket_bytes:
            closed.append(open_ones.pop(dtype))
            bucket = None
        if bucket is None:
            bucket = open_ones[dtype] = Bucket(dtype)
        bucket.append(parameter.name, parameter.elements)
    return closed + sorted(open_ones.values(), key=lambda bucket: bucket.nbytes, reverse=True)


def bytes_of(parameters: Iterable[Parameter], wire: str | None = None) -> int:
    """Of all gradients, in buckets."""
    kinds = ((parameter.elements, wire or parameter.dtype) for parameter in parameters)
    return sum(aligned(elements, dtype) * FLOATS[dtype] for elements, dtype in kinds)


def in_order(parameters: Sequence[Parameter], order: Sequence[int]) -> list[Parameter]:
    """The parameters as these numbers say; those that are not named come last."""
    named = dict.fromkeys(order)
    rest = [number for number in reversed(range(len(parameters))) if number not in named]
    return [parameters[number] for number in (*named, *rest)]


def expresses(buckets: Sequence[Bucket], has_express: bool) -> list[bool]:
    """Which buckets are for the parameters that forward needs first: the last ones, with a quarter of all bytes."""
    total, seen, marks = sum(bucket.nbytes for bucket in buckets), 0, []
    for bucket in buckets:
        seen += bucket.nbytes
        marks.append(has_express and (seen > total * (1 - EXPRESS) or bucket is buckets[-1]))
    return marks


def aligned(elements: int, dtype: str) -> int:
    """So many elements that the next ones begin at a cache line."""
    each = ALIGNMENT // FLOATS[dtype]
    return -(-elements // each) * each
