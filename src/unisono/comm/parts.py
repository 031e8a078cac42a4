"""How arrays are cut into the parts of ranks, along their first axis."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from ..errors import ConfigError
from ..schedule.layout import EqualBlocks, UnequalBlocks
from .arguments import counts_of_rows
from .arrays import Array, readable


def with_rows(x: Any) -> Array:
    """An array that has a first axis."""
    array = readable(x)
    if array.values.ndim == 0:
        raise ConfigError("a single number has no rows; pass an array of one dimension or more")
    return array


def one_part(array: Array) -> EqualBlocks:
    """All of it."""
    return EqualBlocks(array.values.nbytes, 1, array.values.itemsize)


def equal_parts(part: Array, ranks: int) -> EqualBlocks:
    """One such part for each rank."""
    return EqualBlocks(part.values.nbytes * ranks, ranks, part.values.itemsize)


def parts(array: Array, counts: Sequence[int]) -> UnequalBlocks:
    """So many of its rows, one part after the other."""
    row = array.values.itemsize * prod(array.values.shape[1:])
    return UnequalBlocks.of([count * row for count in counts])


def cut(shape: tuple[int, ...], ranks: int) -> tuple[int, ...]:
    """The shape of an equal part."""
    if not shape or shape[0] % ranks:
        raise ConfigError(
            f"an array of shape {shape} cannot be cut into {ranks} equal parts along its first axis; "
            "scatterv, alltoallv and reduce_scatter take counts= of rows"
        )
    return (shape[0] // ranks, *shape[1:])


def reduced_part(
    array: Array, counts: Sequence[int] | None, rank: int, ranks: int
) -> tuple[tuple[int, ...], EqualBlocks | UnequalBlocks]:
    """The shape of a rank's part, and all parts."""
    shape = array.values.shape
    if counts is None:
        return cut(shape, ranks), EqualBlocks(array.values.nbytes, ranks, array.values.itemsize)
    given = counts_of_rows(counts, ranks, shape[0])
    return (given[rank], *shape[1:]), parts(array, given)
