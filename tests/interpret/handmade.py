"""Small schedules written out by hand, right and wrong."""

from __future__ import annotations

import numpy as np

from unisono.schedule.conditions import COLLECTIVES
from unisono.schedule.ir import EVERY_BLOCK, Do, Get, Operation, Put, Round, operations
from unisono.schedule.schedule import Messages, Moves, Table


def handmade(collective: str, *rounds: dict[int, Round], p: int, blocks: int = 1, root: int = 0) -> Table:
    """A table from what each rank does in each round."""
    rows: dict[type, list[tuple[int, ...]]] = {Put: [], Get: [], Do: []}
    for t, round_ in enumerate(rounds):
        for rank, listed in round_.items():
            for operation in operations(listed):
                rows[type(operation)].append((t, rank, *_columns(operation, blocks)))
    return Table(
        collective=COLLECTIVES[collective],
        p=p,
        root=root,
        workers=p,
        blocks=blocks,
        rounds=len(rounds),
        puts=Messages(*_transposed(rows[Put])),
        gets=Messages(*_transposed(rows[Get])),
        moves=Moves(*_transposed(rows[Do])),
        name="handmade",
    )


def _columns(operation: Operation, blocks: int) -> tuple[int, ...]:
    first, count, space = operation.span
    count = blocks if count == EVERY_BLOCK else count
    match operation:
        case Put(to):
            return to, space, first, count, 0
        case Get(source, _, how):
            return source, space, first, count, how
        case Do(_, source, how):
            return space, first, count, source, how


def _transposed(rows: list[tuple[int, ...]]) -> np.ndarray:
    return np.array(rows, int).reshape(-1, 7).T
