"""Whole numbers while workers are killed: acknowledged ≤ counted ≤ issued, and what the apply log says."""

from pathlib import Path

import numpy as np
import pytest
from tests.server.jobs import succeed
from tests.server.restless_worker import CELLS, DEPTH, ITEMS, cells
from tests.server.sketching_worker import exact_cells

from unisono.server.replay import events, log_files, replay


@pytest.mark.soak
def test_counts_are_right_however_workers_die(tmp_path: Path, soak: bool) -> None:
    lives = 5 if soak else 3
    for number in range(200 if soak else 1):
        directory = tmp_path / str(number)
        (directory / "log").mkdir(parents=True)
        succeed(
            "restless_worker.py",
            directory,
            lives,
            workers=3,
            servers=2,
            threads=1 + number % 2,
            UNISONO_SERVER_LOG=str(directory / "log"),
            UNISONO_SERVER_GRACE="0.2",
            PYTHONHASHSEED="0",
        )
        seen = np.load(directory / "seen.npz")
        ledgers = [np.fromfile(directory / str(rank), np.int64) for rank in (1, 2)]
        assert sum(ledger[1] for ledger in ledgers) > 10
        check_counters(seen["counters"], ledgers, lives)
        check_clocks(seen["clocked"], ledgers)
        check_sketch(seen["sketch"], ledgers)
        check_log(directory / "log", seen)


def test_a_sketch_is_exact_when_no_worker_dies(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    succeed("sketching_worker.py", tmp_path, workers=3, servers=2, UNISONO_SERVER_LOG=str(tmp_path / "log"))
    items = np.concatenate([np.load(tmp_path / f"{rank}.npy") for rank in range(3)])
    expected = np.zeros(DEPTH * CELLS, np.int64)
    for item in items:
        np.add.at(expected, exact_cells(item), 1)
    assert np.load(tmp_path / "seen.npy").tobytes() == expected.tobytes()
    assert sum(pushes_of_sketch(path) for path in log_files(tmp_path / "log")).tobytes() == expected.tobytes()
    counts = np.bincount(items)
    assert all(expected[exact_cells(item)].min() >= counts[item] for item in range(len(counts)))


def check_counters(counters: np.ndarray, ledgers: list[np.ndarray], lives: int) -> None:
    for rank, ledger in enumerate(ledgers, 1):
        issued, acknowledged = ledger[:2]
        assert acknowledged <= counters[rank] <= issued
        assert issued - acknowledged <= lives  # one for each death: the file lives on


def check_clocks(clocked: np.ndarray, ledgers: list[np.ndarray]) -> None:
    """A clock counts on all shards or on none."""
    assert len(np.unique(clocked)) == 1
    assert sum(ledger[3] for ledger in ledgers) <= clocked[0] <= sum(ledger[2] for ledger in ledgers)


def check_sketch(sketch: np.ndarray, ledgers: list[np.ndarray]) -> None:
    issued = sum(ledger[4 : 4 + ITEMS] for ledger in ledgers)
    acknowledged = sum(ledger[4 + ITEMS :] for ledger in ledgers)
    for item in range(ITEMS):
        assert sketch[cells(item)].min() >= acknowledged[item]
    for row in sketch.reshape(DEPTH, CELLS):
        assert acknowledged.sum() <= row.sum() <= issued.sum()


def check_log(directory: Path, seen: np.lib.npyio.NpzFile) -> None:
    replayed: dict[str, list[np.ndarray]] = {"counters": [], "clocked": []}
    sketch = np.zeros(DEPTH * CELLS, np.int64)
    pushed = np.zeros(DEPTH * CELLS, np.int64)
    for path in log_files(directory):
        tables = replay(path, 3)
        for name, parts in replayed.items():
            parts.append(tables[name].values)
        keys = tables["sketch"].keys
        assert keys is not None
        sketch[keys] += tables["sketch"].values.ravel()
        pushed += pushes_of_sketch(path)
    assert np.concatenate(replayed["clocked"]).tobytes() == seen["clocked"].tobytes()
    assert np.concatenate(replayed["counters"]).tobytes() == seen["counters"].tobytes()
    assert sketch.tobytes() == pushed.tobytes() == seen["sketch"].tobytes()


def pushes_of_sketch(path: Path) -> np.ndarray:
    """Added up by NumPy, from the log alone: every sequence of an incarnation counts once."""
    total, known = np.zeros(DEPTH * CELLS, np.int64), set()
    number = None
    for event in events(path):
        if event.kind == "create" and b"sketch" in event.payload[:16]:
            number = event.table
        if event.kind == "push" and event.table == number:
            assert (event.incarnation, event.sequence) not in known
            known.add((event.incarnation, event.sequence))
            keys = np.frombuffer(event.payload, np.int64, event.count)
            np.add.at(total, keys, np.frombuffer(event.payload, np.int64, event.count, offset=8 * event.count))
    return total
