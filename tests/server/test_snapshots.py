"""Snapshots: consistent, whole, and refused if they are not."""

import re
import resource
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.server.jobs import succeed
from tests.server.rule import Stepping

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


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_a_rule_goes_on_counting_its_steps(tmp_path: Path, sparse: bool) -> None:
    keys = ([1, 5],) if sparse else ()
    shape: dict[str, Any] = {"width": 3} if sparse else {"shape": (2, 3)}
    for begin in (0, 4):
        with connect() as servers:
            if begin:
                servers.restore(str(tmp_path))
            table = servers.table("w", update=Stepping, consistency=asynchronous, **shape)
            for step in range(begin + 1, begin + 5):
                table.push(*keys, np.ones((2, 3)))
                assert (table.pull(*keys) == step).all()
            servers.snapshot(str(tmp_path))


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


def keep(directory: Path, *value: int) -> str:
    """What two servers say who take a snapshot of this value, or load what is there."""
    return succeed("kept_worker.py", directory, *value, workers=1, servers=2)


def test_a_snapshot_that_one_server_cannot_write_leaves_the_last_one(tmp_path: Path) -> None:
    assert "found [1]" in keep(tmp_path, 1)
    (tmp_path / "shard-1.snapshot.new").mkdir()
    assert re.search("refused: .*shard-1.snapshot.new: Is a directory", keep(tmp_path, 2))
    (tmp_path / "shard-1.snapshot.new").rmdir()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["shard-0.snapshot", "shard-1.snapshot"]
    assert "found [1]" in keep(tmp_path)


def test_a_snapshot_that_one_server_cannot_load_is_loaded_by_none(tmp_path: Path) -> None:
    good, bad = tmp_path / "good", tmp_path / "bad"
    keep(good, 9)
    shutil.copytree(good, bad)
    damaged = bytearray((bad / "shard-1.snapshot").read_bytes())
    damaged[len(damaged) // 2] ^= 1
    (bad / "shard-1.snapshot").write_bytes(damaged)
    out = succeed("loading_worker.py", bad, workers=1, servers=2)
    assert re.search(r"refused: .*shard-1.snapshot is refused: it is damaged", out), out
    assert "found [0]" in out
    assert "found [9]" in succeed("loading_worker.py", bad, good, workers=1, servers=2)


@pytest.mark.parametrize("kind", ["bsp", "ssp"])
def test_more_workers_than_a_snapshot_has_go_on_from_its_slowest_clock(tmp_path: Path, kind: str) -> None:
    succeed("growing_worker.py", tmp_path, kind, "save", workers=1)
    out = succeed("growing_worker.py", tmp_path, kind, "load", workers=3)
    assert out.count("from 5 to 10: 20") == 3, out


def test_a_disk_that_is_full_leaves_the_last_snapshot(tmp_path: Path) -> None:
    path = save(tmp_path)
    whole = path.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    with connect() as servers:
        servers.table("w", 100_000, init=1.0)
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
            with pytest.raises(ConfigError, match="File too large"):
                servers.snapshot(str(tmp_path))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert [path] == list(tmp_path.iterdir())
        assert path.read_bytes() == whole
        servers.snapshot(str(tmp_path))
        assert path.stat().st_size > 400_000


def test_servers_that_ended_while_they_kept_a_snapshot_have_all_of_it_or_the_last_one(tmp_path: Path) -> None:
    """The first server's file says which one it is; another may still have it beside its last one."""
    old, new, torn = (tmp_path / name for name in ("old", "new", "torn"))
    keep(old, 1)
    keep(new, 2)

    def find(first: Path, second: Path, beside: Path | None) -> str:
        shutil.rmtree(torn, ignore_errors=True)
        torn.mkdir()
        shutil.copy(first / "shard-0.snapshot", torn)
        shutil.copy(second / "shard-1.snapshot", torn)
        if beside:
            shutil.copy(beside / "shard-1.snapshot", torn / "shard-1.snapshot.new")
        return keep(torn)

    assert "found [1]" in find(old, old, new)  # the first had not kept it
    assert "found [2]" in find(new, old, new)  # it had
    assert "another snapshot than that of the first shard" in find(new, old, None)


def test_snapshots_that_several_ask_for_are_taken_one_after_the_other(tmp_path: Path) -> None:
    with connect() as servers:
        table = servers.table("w", 300_000, consistency=asynchronous)
        for _ in range(3):
            table.push(np.ones(300_000))
            asked = [servers._worker.request("snapshot", str(tmp_path / name)) for name in "abab"]
            for one in asked:
                servers._waiting.wait(one, "snapshot")
    for name in "ab":
        with connect() as servers:
            servers.restore(str(tmp_path / name))
            assert (servers.table("w", 300_000, consistency=asynchronous).pull() == 3).all()
