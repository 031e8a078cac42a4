"""The log of all events: whole, or an error that says so."""

from pathlib import Path

import numpy as np
import pytest
from tests.server.jobs import run_job, succeed
from tests.server.rule import Clipped

from unisono.errors import PeerLost, UnisonoError
from unisono.server import Consistency, ParameterServers, asynchronous, bsp, connect, ssp
from unisono.server.replay import events, log_files, replay


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("UNISONO_SERVER_LOG", str(tmp_path))
    return tmp_path / "shard-0.log"


def work(servers: ParameterServers) -> None:
    table = servers.table("w", 10, update="adam", lr=0.1, consistency=asynchronous)
    for n in range(20):
        table.push(np.full(10, n))


def dense_work(servers: ParameterServers, consistency: Consistency) -> np.ndarray:
    """Gradients whose sum depends on their order."""
    random = np.random.default_rng(servers.rank)
    table = servers.table("w", 30_000, update="adam", lr=0.1, consistency=consistency)
    for _ in range(10):
        table.push(random.standard_normal(30_000) * 10.0 ** random.integers(-8, 8))
        table.clock()
    return table.pull(info=True)[0]


@pytest.mark.parametrize("consistency", [asynchronous, bsp, ssp(2)], ids=str)
def test_the_replay_of_a_log_of_floats_has_the_same_bits(log: Path, consistency: Consistency) -> None:
    with connect(deadline=20) as servers:
        seen = dense_work(servers, consistency)
    assert replay(log, 1)["w"].values.tobytes() == seen.tobytes()


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_the_replay_of_a_rule_of_the_users_has_the_same_bits(log: Path, sparse: bool) -> None:
    random = np.random.default_rng(3)
    keys = (np.array([4, -9, 2**40]),) if sparse else ()
    shape = {"width": 5} if sparse else {"shape": (3, 5)}
    with connect(deadline=20) as servers:
        table = servers.table("w", update=Clipped, consistency=ssp(1), lr=0.3, limit=0.7, **shape)
        for _ in range(10):
            table.push(*keys, random.standard_normal((3, 5)))
            table.clock()
        seen = table.pull(*keys, info=True)[0]
    again = replay(log, 1)["w"]
    if again.keys is not None:
        assert again.keys.tolist() == keys[0].tolist()
    assert again.values.tobytes() == seen.tobytes()


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["bsp", "ssp", "asynchronous"])
def test_the_replay_of_what_several_workers_pushed_has_the_same_bits(tmp_path: Path, kind: str, soak: bool) -> None:
    """Under ssp, and without a bound, who comes first is up to them: the log knows."""
    for seed in range(100 if soak else 1):
        directory = tmp_path / str(seed)
        directory.mkdir()
        options = {"threads": 1 + seed % 2, "UNISONO_SERVER_LOG": str(directory)}
        succeed("ordered_worker.py", directory, kind, seed, workers=3, servers=2, **options)
        seen = np.load(directory / "seen.npz")
        parts = [replay(path, 3) for path in log_files(directory)]
        assert np.concatenate([part["w"].values for part in parts]).tobytes() == seen["dense"].tobytes()
        for part in parts:
            assert part["e"].keys is not None
            assert part["e"].values.tobytes() == seen["sparse"][part["e"].keys].tobytes()
        assert sum(len(part["e"].values) for part in parts) == len(seen["sparse"])


def test_a_log_that_was_cut_short_ends_with_its_last_whole_event(log: Path) -> None:
    with connect() as servers:
        work(servers)
    whole, all_events = log.read_bytes(), events(log)
    assert [event.kind for event in all_events[:2]] == ["joined", "create"]
    assert [event.sequence for event in all_events if event.kind == "push"] == list(range(3, 23))
    log.write_bytes(whole[:-1])  # who left is forgotten
    assert len(events(log)) == len(all_events) - 1
    assert replay(log, 1)["w"].values.shape == (10,)


def test_a_log_that_is_damaged_is_refused(log: Path) -> None:
    with connect() as servers:
        work(servers)
    whole = bytearray(log.read_bytes())
    for at in np.random.default_rng(1).integers(0, len(whole) - 200, 40):
        damaged = whole.copy()
        damaged[at] ^= 1
        log.write_bytes(damaged)
        with pytest.raises((UnisonoError, RuntimeError), match=r"checksum|damaged|frame|version"):
            replay(log, 1)


def test_a_log_that_cannot_be_written_ends_the_server(log: Path) -> None:
    log.symlink_to("/dev/full")
    with connect() as servers:
        work(servers)  # fits into the buffer
        with pytest.raises(PeerLost, match=r"cannot write the apply log .*: No space left on device"):
            servers.status()
    servers = connect()
    table = servers.table("w", 100_000, consistency=asynchronous)
    with pytest.raises(PeerLost, match="No space left on device"):
        table.push(np.ones(100_000))
    servers.close()
    servers = connect()
    work(servers)
    with pytest.raises(PeerLost, match="close: cannot write the apply log"):
        servers.close()


def test_a_job_whose_log_cannot_be_written_fails(tmp_path: Path) -> None:
    (tmp_path / "shard-1.log").symlink_to("/dev/full")
    run = run_job("kept_worker.py", tmp_path / "snapshot", 1, workers=1, servers=2, UNISONO_SERVER_LOG=str(tmp_path))
    assert run.returncode != 0
    assert "cannot write the apply log" in run.stderr + run.stdout
