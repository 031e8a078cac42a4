"""Prepared calls for ranks that share memory: where every block of everybody is, for a certain size of the vector."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._native import SharedPlan
from .._native import SharedProgram as NativeProgram
from ..interpret.lower import Area
from ..interpret.share import SharedProgram
from ..schedule.layout import Layout

LINE = 64  # bytes of a cache line
TINY, WORD = 32, 8  # bytes of a stage on a board's line, and what its entries start at multiples of

WINDOW_OF_TWO = 128 << 10  # bytes: more would leave the cache; more than two ranks would change cores too often

ROTATION = (
    4 << 20
)  # bytes of the stages of all ranks that calls go over in turn: more takes longer, where ranks are many

WORTH_A_TRIAL = 8 << 10  # bytes that a rank stages: of less, the ways differ by less than what is tried costs

MOST_STEPS = 1 << 20  # as in native/transport/shm/board.hpp

Offsets = NDArray[np.int64]
OffsetOf = Callable[[int, int, Offsets], Offsets]
"""Rank, area and blocks to where the blocks start in that rank's array."""


class Arithmetic(NamedTuple):
    """What a call computes, in the native core's numbers: operands are multiplied first, the result divided."""

    dtype: int
    operator: int
    factor: float = 1.0
    divisor: int = 1


class Sharing(NamedTuple):
    """How the ranks of a communicator share memory."""

    stage_bytes: int
    direct: bool  # processes may use each other's private memory


class Staging(NamedTuple):
    """How a call uses the stages."""

    preferred: bool  # to each other's memory
    window: int | None  # bytes of a block at a time, if that is to be less than fits


class Windows(NamedTuple):
    """Blocks are worked on piece by piece."""

    nbytes: int
    number: int
    tiny: bool


def make_plan(
    program: SharedProgram,
    native: NativeProgram,
    layout: Layout,
    offset_of: OffsetOf,
    sharing: Sharing,
    *,
    staging: Staging,
    arithmetic: Arithmetic,
    fingerprint: int,
) -> SharedPlan | None:
    """None if the stages are too small even in the smallest pieces."""
    may_stage = staging.preferred or not sharing.direct
    entries = program.stages if may_stage else list(map(_first, program.stages, program.slots))
    sizes = [layout.nbytes(blocks, 1) for blocks in entries]
    all_sizes = np.atleast_1d(layout.nbytes(np.arange(layout.blocks), 1))
    windows = cut(sizes, int(all_sizes.max(initial=0)), sharing.stage_bytes, staging.window if may_stage else None)
    if windows is None or windows.number * program.steps >= MOST_STEPS:
        return None
    align = WORD if windows.tiny else LINE
    stages = [starts(np.minimum(each, windows.nbytes), align) for each in sizes]
    step = max(needed(each, windows.nbytes, align) for each in sizes)
    ranks, areas, numbers, entry = program.places.T
    staged = np.array([stages[r][e] if 0 <= e < len(entries[r]) else 0 for r, e in zip(ranks, entry, strict=True)])
    offsets = np.zeros(len(ranks), np.int64)
    for rank in np.unique(ranks):
        for area in (Area.IN, Area.OUT):
            rows = np.flatnonzero((ranks == rank) & (areas == area))
            offsets[rows] = offset_of(int(rank), int(area), program.blocks[numbers[rows]])
    return SharedPlan(
        native,
        layout.nbytes(program.blocks, 1).astype(np.uint64),
        offsets.astype(np.uint64),
        staged.astype(np.uint64),
        windows.nbytes,
        windows.number,
        step,
        turns(step, sharing.stage_bytes, len(sizes)),
        windows.tiny,
        may_stage,
        sharing.stage_bytes,
        *arithmetic,
        fingerprint,
        program.sums_at_once,
        sharing.direct if may_stage and step >= WORTH_A_TRIAL else None,
    )


def cut(sizes: list[Offsets], largest: int, stage_bytes: int, most: int | None = None) -> Windows | None:
    """Whole blocks, or the largest windows with which the entries of every rank fit its stage; of so many at most."""
    whole = max(LINE, -(-largest // LINE) * LINE)
    if all(needed(each, whole, WORD) <= TINY for each in sizes):
        return Windows(whole, 1, tiny=True)
    if all(needed(each, whole, LINE) <= stage_bytes for each in sizes) and (most is None or whole <= most):
        return Windows(whole, 1, tiny=False)
    window = stage_bytes // max(map(len, sizes)) // LINE * LINE
    window = min(window, most or (WINDOW_OF_TWO if len(sizes) == 2 else window))
    return Windows(window, -(-largest // window), tiny=False) if window else None


def turns(step: int, stage_bytes: int, ranks: int) -> int:
    """Places in each of a rank's two stages that calls take in turn, of so many bytes."""
    return max(1, min(stage_bytes, ROTATION // (2 * ranks)) // step) if step else 1


def _first(blocks: Offsets, count: int) -> Offsets:
    return blocks[:count]


def needed(sizes: Offsets, window: int, align: int) -> int:
    return int((-(-np.minimum(sizes, window) // align) * align).sum())


def starts(sizes: Offsets, align: int) -> Offsets:
    """Where entries of these sizes start, one after the other."""
    aligned = -(-sizes // align) * align
    return np.cumsum(aligned) - aligned
