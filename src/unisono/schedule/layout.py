"""How large the blocks are: cut as equally as whole elements allow, or as somebody says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import ScheduleError
from .ir import EVERY_BLOCK, Ints, Number


@dataclass(frozen=True)
class EqualBlocks:
    """``total`` bytes in ``blocks`` blocks that differ by at most one element; the larger ones come first."""

    total: int
    blocks: int
    element: int = 1

    def __post_init__(self) -> None:
        if self.total < 0 or self.total % self.element:
            raise ScheduleError(f"{self.total} bytes are not a whole number of elements of {self.element} bytes")

    def start(self, block: Number) -> Number:
        """The byte at which a block starts."""
        size, longer = divmod(self.total // self.element, self.blocks)
        return (block * size + np.minimum(block, longer)) * self.element

    def nbytes(self, first: Number, count: Number) -> Number:
        """The bytes of a cyclic run of blocks."""
        return _run(self, first, count)

    @property
    def exactly_equal(self) -> bool:
        """Are all blocks of one size?"""
        return self.total % (self.blocks * self.element) == 0


@dataclass(frozen=True)
class UnequalBlocks:
    """Blocks of given sizes, in bytes."""

    starts: Ints

    @classmethod
    def of(cls, sizes: Sequence[int] | Ints) -> UnequalBlocks:
        return cls(np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64))

    @classmethod
    def in_shares(cls, total: int, shares: Ints, element: int = 1) -> UnequalBlocks:
        """``total`` bytes in proportion to the shares, in whole elements."""
        if total < 0 or total % element:
            raise ScheduleError(f"{total} bytes are not a whole number of elements of {element} bytes")
        if len(shares) == 0 or min(shares) < 0 or sum(shares) == 0:
            raise ScheduleError("shares are numbers from 0 up, and at least one is above 0")
        reached = np.concatenate([[0], np.cumsum(shares)]) / np.sum(shares)
        return cls(np.rint(reached * (total // element)).astype(np.int64) * element)

    @property
    def total(self) -> int:
        return int(self.starts[-1])

    @property
    def blocks(self) -> int:
        return len(self.starts) - 1

    def start(self, block: Number) -> Number:
        """The byte at which a block starts."""
        return self.starts[block]

    def nbytes(self, first: Number, count: Number) -> Number:
        """The bytes of a cyclic run of blocks."""
        return _run(self, first, count)


Layout = EqualBlocks | UnequalBlocks


def _run(layout: Layout, first: Number, count: Number) -> Number:
    first = first % layout.blocks
    end = first + np.where(count == EVERY_BLOCK, layout.blocks, count)
    over = end > layout.blocks
    past_end = np.where(over, layout.total + layout.start(np.where(over, end - layout.blocks, 0)), 0)
    return np.where(over, past_end, layout.start(np.where(over, 0, end))) - layout.start(first)
