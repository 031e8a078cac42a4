"""The files that ranks leave when a call fails: complete or not there, and read without trust."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.trace.dumps import any_dumps, call, diagnose, dump, peer, words

from unisono.errors import ConfigError
from unisono.trace.dump import MOST_PEERS, Dump, read, write
from unisono.trace.ends import End, write_ends
from unisono.trace.plain import Unfit, from_plain, to_plain
from unisono.trace.record import Kind, Peer, Record

LOST = "rank 0 lost rank 1: its process has ended"


def some_dump() -> Dump:
    return dump(0, 2, "PeerLost", LOST, call(3, peer(1, waited=0.5, arrived=False), outcome="failed"))


def only_file(directory: Path) -> Path:
    (path,) = directory.iterdir()
    return path


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    path = write(tmp_path, some_dump())
    assert path == tmp_path / "rank-0.failure.json"
    assert read(tmp_path) == ([some_dump()], [])


def test_other_communicators_have_their_own_files(tmp_path: Path) -> None:
    part = some_dump()._replace(communicator="world.0.1")
    for each in (some_dump(), part):
        write(tmp_path, each)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "rank-0.failure.json",
        "rank-0.world.0.1.failure.json",
    ]
    assert read(tmp_path).dumps == [some_dump(), part]


def test_a_directory_is_made_for_its_owner_only_and_nothing_else_is_left_in_it(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "dumps"
    write(folder, some_dump())
    write(folder, some_dump())
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(only_file(folder).stat().st_mode) == 0o600


def test_a_draft_that_cannot_become_a_dump_is_removed(tmp_path: Path) -> None:
    (tmp_path / "rank-0.failure.json").mkdir()
    with pytest.raises(IsADirectoryError):
        write(tmp_path, some_dump())
    assert only_file(tmp_path).is_dir()
    assert read(tmp_path).skipped == ["rank-0.failure.json was skipped: it is not a regular file"]


def test_of_many_peers_those_are_kept_that_count(tmp_path: Path) -> None:
    peers = [peer(rank, waited=rank / 1000) for rank in range(1, 1000)]
    peers[6] = peer(7, arrived=False)
    write(tmp_path, dump(0, 1000, "PeerLost", "x" * 10**6, *(call(i, *peers) for i in range(256))))
    assert only_file(tmp_path).stat().st_size < 2 << 20
    (found,) = read(tmp_path).dumps
    kept = [each.rank for each in found.calls[-1].peers]
    assert kept == [7, *range(999, 999 - MOST_PEERS + 1, -1)]


@given(any_dumps())
def test_whatever_a_rank_writes_is_read_back(tmp_path_factory: pytest.TempPathFactory, dumps: list[Dump]) -> None:
    folder = tmp_path_factory.mktemp("dumps")
    written = {write(folder, each): each for each in dumps}
    found = read(folder)
    assert found.skipped == []
    assert sorted((each.rank, each.communicator, each.run) for each in found.dumps) == sorted(
        (each.rank, each.communicator, each.run) for each in written.values()
    )


HOSTILE: dict[str, bytes] = {
    "it is empty": b"",
    "it is not JSON, or not all of it": b'{"format":1,"run":"a"',
    "not JSON": b"\x00\xff" * 1000,
    "Unfit": b"[]",
    "it has format 2": b'{"format":2}',
    "has not the fields": b'{"format":1}',
    "RecursionError": b"[" * 100_000,
    "larger than 16 MiB": b" " * ((16 << 20) + 1),
}


@pytest.mark.parametrize("reason", HOSTILE)
def test_a_file_that_is_no_dump_is_named_and_skipped(reason: str, tmp_path: Path) -> None:
    write(tmp_path, some_dump())
    (tmp_path / "rank-1.failure.json").write_bytes(HOSTILE[reason])
    (line,) = read(tmp_path).skipped
    assert line.startswith("rank-1.failure.json was skipped: ")
    assert reason in line or reason in ("Unfit", "RecursionError")
    text = words(tmp_path)
    assert "First cause: rank 1 (host a, pid 1001) died without a word" in text
    assert line[:70] in text


def test_a_truncated_dump_is_skipped_wherever_it_ends(tmp_path: Path) -> None:
    path = write(tmp_path, some_dump())
    data = path.read_bytes()
    for length in range(0, len(data), 7):
        path.write_bytes(data[:length])
        assert len(read(tmp_path).skipped) == 1


def test_a_pipe_in_the_place_of_a_dump_keeps_nobody_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "rank-0.failure.json")
    assert read(tmp_path).skipped == ["rank-0.failure.json was skipped: it is not a regular file"]


def test_a_renamed_dump_is_not_taken_for_another_rank(tmp_path: Path) -> None:
    write(tmp_path, some_dump()).rename(tmp_path / "rank-1.failure.json")
    assert "it is of rank 0" in read(tmp_path).skipped[0]


def test_a_dump_cannot_speak_to_the_terminal(tmp_path: Path) -> None:
    write(tmp_path, dump(0, 2, "ValueError", "\x1b]0;owned\x07 [bold red]boo[/]", call(1)))
    text = words(tmp_path)
    assert "\x1b" not in text
    assert "[bold red]boo[/]" in text


def leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(leaf for key, part in inner for leaf in leaves(part, (*path, key)))]


PLAIN = json.loads(json.dumps(to_plain(some_dump())))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just(10**30) | st.just("\ud800"),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)


@given(st.sampled_from(leaves(PLAIN)[1:]), JSON)
def test_a_dump_with_anything_in_any_place_is_refused_or_told(
    tmp_path_factory: pytest.TempPathFactory, place: tuple[Any, ...], anything: Any
) -> None:
    folder = tmp_path_factory.mktemp("dumps")
    value = json.loads(json.dumps(PLAIN))
    at = value
    for key in place[:-1]:
        at = at[key]
    at[place[-1]] = anything
    (folder / "rank-0.failure.json").write_text(json.dumps(value))
    found = read(folder)
    assert len(found.dumps) + len(found.skipped) == 1
    done = diagnose(folder)
    assert done.returncode == (0 if found.dumps else 2)


def test_how_processes_ended_is_told_with_the_dumps_of_their_job(tmp_path: Path) -> None:
    write(tmp_path, some_dump())
    write_ends(tmp_path, "another job", 0, [End(1, -11, False)])
    assert "rank 1 (host a, pid 1001) died without a word" in words(tmp_path)
    write_ends(tmp_path, "job", 1, [End(1, -11, False)])
    assert "rank 1 (host a, pid 1001) was killed by SIGSEGV" in words(tmp_path)
    write_ends(tmp_path, "job", 1, [End(1, -9, True)])
    text = words(tmp_path)
    assert "rank 1 (host a, pid 1001) died without a word" in text
    assert "left no record; was ended by the launcher" in text
    (tmp_path / "launcher-1.ends.json").write_text("{")
    assert "launcher-1.ends.json was skipped: it is not JSON" in words(tmp_path)


def test_an_empty_directory_says_what_to_do(tmp_path: Path) -> None:
    done = diagnose(tmp_path)
    assert done.returncode == 2
    assert "UNISONO_DUMP" in done.stderr
    with pytest.raises(ConfigError, match="is not a directory"):
        read(tmp_path / "nowhere")


def test_types_are_held_to_the_letter() -> None:
    plain = to_plain(Peer(1, True, None, 2, 3, 4))
    assert from_plain(Peer, plain) == Peer(1, True, None, 2, 3, 4)
    for name, wrong in (("rank", True), ("rank", 1.0), ("expected", 1), ("arrived", "x"), ("waited", 1 << 64)):
        with pytest.raises(Unfit, match=name):
            from_plain(Peer, {**plain, name: wrong})
    record = Record(1, None, Kind("barrier"), 0, "", 0, None, False, [])
    assert from_plain(Record, to_plain(record)) == record
