"""Operations that run without the interpreter: to be pushed, or called."""

from __future__ import annotations

from typing import Any

from .._native import Native, native_copy, native_nothing, native_reduce, supports
from ..comm.arrays import readable, writable
from ..comm.call import OPS
from ..errors import ConfigError

nothing: Native = native_nothing()
"""Does nothing, when it is its turn."""


def copy(x: Any, *, out: Any) -> Native:
    """Copy x to out, an array of as many elements of the same type."""
    source, target = readable(x), writable(out)
    if (source.values.size, source.dtype) != (target.values.size, target.dtype):
        raise ConfigError(
            f"out has {target.values.size} elements of {target.dtype}, x has {source.values.size} of {source.dtype}"
        )
    return native_copy(source.address, target.address, source.values.nbytes, (source, target))


def reduce(*xs: Any, op: str = "sum", out: Any) -> Native:
    """Reduce two or more arrays of one shape, element by element, from left to right. ``out`` may be one of them."""
    if len(xs) < 2:
        raise ConfigError("reduce takes two arrays or more")
    target, sources = writable(out), [readable(x) for x in xs]
    for source in sources:
        if (source.values.size, source.dtype) != (target.values.size, target.dtype):
            raise ConfigError(
                f"out has {target.values.size} elements of {target.dtype}, one of what is reduced has "
                f"{source.values.size} of {source.dtype}"
            )
    if op not in OPS or not supports(OPS[op], target.code):
        raise ConfigError(f"{op!r} is no operator for elements of type {target.dtype}; there are: {', '.join(OPS)}")
    addresses = [source.address for source in sources]
    return native_reduce(OPS[op], target.code, addresses, target.address, target.values.size, (sources, target))
