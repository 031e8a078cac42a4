"""Memory for arrays that the other ranks of the host use as they are, and that is used again when they are gone."""

from __future__ import annotations

import os
from contextlib import suppress
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import UnisonoError

if TYPE_CHECKING:
    from .._native import Inbox

PAGE = 4096
STAGE_BYTES = 1 << 20
"""What a rank has for blocks that others cannot use where they are, twice."""

MEMORY_FOR_RINGS = 256 << 20
"""All rings of a job on one host have at most so many bytes together: zeroing them is part of the start."""

LONGEST_RING, SHORTEST_RING = 1 << 20, 1 << 12


def make_inbox(ranks: int) -> Inbox:
    """What a rank shares with so many ranks of its host, itself included. Its heap may become as large as memory."""
    from .._native import Inbox

    heap = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    while heap >= PAGE:
        with suppress(UnisonoError):  # a limit on addresses (ulimit -v)
            return Inbox(ranks, ring_bytes(ranks), STAGE_BYTES, heap // PAGE * PAGE)
        heap //= 16
    return Inbox(ranks, ring_bytes(ranks), STAGE_BYTES, 0)


def ring_bytes(ranks: int) -> int:
    """The size of a ring, a power of two."""
    fitting = max(1, MEMORY_FOR_RINGS // ranks**2)
    return max(SHORTEST_RING, min(LONGEST_RING, 1 << (fitting.bit_length() - 1)))


def empty(inbox: Inbox | None, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """An array that is not filled: in shared memory from a page upwards, if there is some."""
    nbytes = prod(shape) * dtype.itemsize
    if inbox is None or nbytes < PAGE:
        return np.empty(shape, dtype)
    return np.asarray(inbox.empty(nbytes)).view(dtype).reshape(shape)
