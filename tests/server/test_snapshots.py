"""Snapshots: consistent, whole, and refused if they are not."""

import re
from pathlib import Path

import numpy as np
import pytest
from tests.server.jobs import succeed

from unisono.errors import ConfigError
from unisono.server import ParameterServers, asynchronous, connect


def test_a_job_goes_on_from_a_snapshot_as_if_nothing_had_happened(tmp_path: Path) -> None:
    succeed("snapshot_worker.py", tmp_path, "begin", workers=2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["shard-0.snapshot", "shard-1.snapshot"]
    out = succeed("snapshot_worker.py", tmp_path, "resume", workers=2)
    begins = {int(rank): int(clock) for rank, clock in re.findall(r"worker (\d) begins at (\d+)", out)}
    assert 5 <= begins[0] <= 6  # what was held because worker 1 was behind is computed again
    assert 3 <= begins[1] <= 9
    for rank in range(2):
        end = np.load(tmp_path / f"end-{rank}.npz")
        assert (end["dense"] == 12 * 11).all()


def save(directory: Path) -> Path:
    with connect() as servers:
        table = servers.table("w", 1000, init="uniform", consistency=asynchronous)
        servers.table("e", width=3, consistency=asynchronous).push([1, -5], np.ones((2, 3)))
        table.push(np.ones(1000))
        servers.snapshot(str(directory))
        servers.snapshot(str(directory))
    return directory / "shard-0.snapshot"


def load(servers: ParameterServers, directory: Path) -> tuple[np.ndarray, np.ndarray]:
    servers.restore(str(directory))
    table = servers.table("w", 1000, init="uniform", consistency=asynchronous)
    rows = servers.table("e", width=3, consistency=asynchronous)
    return table.pull(), rows.pull([1, -5, 9])


def test_what_was_written_is_read(tmp_path: Path) -> None:
    save(tmp_path)
    with connect() as servers:
        dense, sparse = load(servers, tmp_path)
        assert abs(dense - 1).max() <= 0.01
        assert sparse.tolist() == [[1] * 3, [1] * 3, [0] * 3]
        with pytest.raises(ConfigError, match="before the first table"):
            servers.restore(str(tmp_path))


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    path = save(tmp_path)
    whole = path.read_bytes()
    random = np.random.default_rng(1)
    for cut in [0, 10, 47, 48, len(whole) // 2, len(whole) - 1]:
        path.write_bytes(whole[:cut])
        refuse(tmp_path)
    for at in random.integers(0, len(whole), 40):
        damaged = bytearray(whole)
        damaged[at] ^= 1 << int(random.integers(0, 8))
        path.write_bytes(damaged)
        refuse(tmp_path)
    path.write_bytes(whole + b"!")
    refuse(tmp_path)
    path.unlink()
    with connect() as servers, pytest.raises(ConfigError, match="cannot read the snapshot"):
        servers.restore(str(tmp_path))


def refuse(directory: Path) -> None:
    with connect() as servers:
        with pytest.raises(ConfigError, match="is refused"):
            servers.restore(str(directory))
        assert servers.table("fine", 3).pull().tolist() == [0, 0, 0]


def test_a_directory_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with connect() as servers, pytest.raises(ConfigError, match="file"):
        servers.snapshot(str(tmp_path / "file" / "below"))
