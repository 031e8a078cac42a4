"""The memory of buckets: shared with the other ranks of the host, with a place for every gradient."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import ConfigError
from .layout import Bucket, Parameter, aligned

if TYPE_CHECKING:
    from ..comm.communicator import Communicator

DtypeOf = Callable[[str], Any]
"""From the name of a type to NumPy's or torch's own."""


class Storage:
    """Arrays, or tensors, of all buckets. The last one also has a flag for every parameter: who has a gradient for it.

    So the ranks agree upon unused parameters without a call of its own. A flag is 1 or 0 here, and an average of these
    after the call.
    """

    def __init__(self, comm: Communicator, parameters: Sequence[Parameter], buckets: list[Bucket], of: DtypeOf) -> None:
        self.buckets = buckets
        last = buckets[-1]
        sizes = [bucket.elements for bucket in buckets]
        sizes[-1] += aligned(len(parameters), last.dtype)
        self.arrays = [comm.empty(size, of(bucket.dtype)) for size, bucket in zip(sizes, buckets, strict=True)]
        for array in self.arrays:
            array[:] = 0  # also between the places, where nobody writes
        self.flags = self.arrays[-1][last.elements : last.elements + len(parameters)]
        self.numbers = {parameter.name: number for number, parameter in enumerate(parameters)}
        self.bucket_of: dict[str, int] = {}
        self.places: dict[str, Any] = {}
        by_name = {parameter.name: parameter for parameter in parameters}
        for number, bucket in enumerate(buckets):
            for name, start in bucket.starts.items():
                shape, elements = by_name[name].shape, by_name[name].elements
                self.bucket_of[name] = number
                self.places[name] = self.arrays[number][start : start + elements].reshape(shape)

    def gradients(self, bucket: int) -> Any:
        """All of it but the flags."""
        return self.arrays[bucket][: self.buckets[bucket].elements]


def numpy_dtype(name: str) -> Any:
    """bfloat16 is not NumPy's own."""
    if name != "bfloat16":
        return np.dtype(name)
    try:
        import ml_dtypes
    except ImportError:
        raise ConfigError("NumPy has no bfloat16 of its own: pip install ml_dtypes") from None
    return np.dtype(ml_dtypes.bfloat16)


def scale(array: Any, factor: float) -> None:
    """Multiply in place, in the type of the elements. Nothing of what weighs 0 is left, also if it is not a number."""
    if factor == 0:
        array[...] = 0
    elif isinstance(array, np.ndarray):
        np.multiply(array, array.dtype.type(factor), out=array)
    else:
        array.mul_(factor)


def put(place: Any, gradient: Any, *, add: bool) -> None:
    """Write a gradient into its place, or add it to what is there."""
    if add:
        place += gradient
    elif isinstance(place, np.ndarray):
        np.copyto(place, gradient, casting="unsafe")
    else:
        place.copy_(gradient)
