"""What an apply log says: the events that changed a shard, and the values that they make when they are made again."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from .rules import Rules


class Replayed(NamedTuple):
    """A table's part on one shard."""

    name: str
    clock: int
    """That of the slowest worker."""
    values: np.ndarray
    """Elements, or rows × width."""
    keys: np.ndarray | None
    """Of the rows, if the table is sparse."""


@dataclass(frozen=True)
class Event:
    """Something that changed a shard."""

    kind: str
    table: int
    worker: int
    incarnation: int
    sequence: int
    clock: int
    first: int
    count: int
    payload: bytes


KINDS = {
    2: "create",
    3: "push",
    4: "prepare",
    6: "push_pull",
    12: "withdraw",
    64: "joined",
    65: "committed",
    66: "ended",
    76: "unmade",
}
_WORKERS_BYTES = 12  # of a saved clock


def log_files(directory: str | Path) -> list[Path]:
    """One for each shard, in their order."""
    return sorted(Path(directory).glob("shard-*.log"), key=lambda path: int(path.stem.split("-")[1]))


def events(path: str | Path) -> list[Event]:
    """All events of a shard."""
    from .._native import read_apply_log

    return [Event(KINDS[kind], *rest) for kind, *rest in read_apply_log(str(path))]


def replay(path: str | Path, workers: int) -> dict[str, Replayed]:
    """The tables of a shard, made again from its log; `workers` as many as the job had."""
    from .._native import replay_apply_log

    result = {}
    for name, dtype, dense, extent, clock, saved in replay_apply_log(str(path), workers, Rules()):
        (count,) = np.frombuffer(saved, np.uint64, 1)
        rest = memoryview(saved)[8 + int(count) * _WORKERS_BYTES :]
        if dense:
            result[name] = Replayed(name, clock, np.frombuffer(rest, dtype, extent), None)
        else:
            result[name] = Replayed(name, clock, *_rows(rest, dtype, extent))
    return result


def _rows(saved: memoryview, dtype: str, width: int) -> tuple[np.ndarray, np.ndarray]:
    _, count = np.frombuffer(saved, np.uint64, 2)  # steps of a rule, rows
    rows = np.frombuffer(saved[16:], np.uint8).reshape(int(count), -1) if count else np.empty((0, 8), np.uint8)
    keys = np.ascontiguousarray(rows[:, :8]).view(np.int64).reshape(-1)
    itemsize = np.dtype(dtype).itemsize
    values = np.ascontiguousarray(rows[:, 8 : 8 + width * itemsize]).view(dtype).reshape(int(count), width)
    return values, keys
