"""Merging: what belongs together, and what does not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.trace.traces import calls, merge, merged

from unisono.trace import events
from unisono.trace.file import TraceFile
from unisono.trace.record import Kind, Peer, Record

BEGAN = 1_000_000_000_000


def record(number: int, began: int, ended: int) -> Record:
    peers = [Peer(1, True, began + 5, 0, 0, 0)]
    return Record(number, number, Kind("allreduce", "ring", "float32", "sum"), 8, "a.py:1", began, ended, False, peers)


def write_traces(directory: Path, *, size: int = 2, run: str = "one", offset: int = 0) -> None:
    """Each rank's clock is `offset` later than that of the one before; they make two calls at the same time."""
    for rank in range(size):
        file = TraceFile(str(directory), rank)
        file.open(size=size, host=f"host{rank}", run=run, offset=-rank * offset, error=2000 * rank)
        times = [BEGAN + rank * offset, BEGAN + rank * offset + 3_000_000]
        records = [record(number, began, began + 1_000_000) for number, began in enumerate(times)]
        track = file.track("world", range(size))
        track.follow(lambda number, records=records: records[number:])
        track.close()


def test_clocks_that_are_hours_apart_are_brought_together(tmp_path: Path) -> None:
    write_traces(tmp_path, size=3, offset=3600 * 10**9)
    events, text = merged(tmp_path)
    assert [(call["pid"], call["ts"], call["dur"]) for call in calls(events)] == [
        (0, 0, 1000), (1, 0, 1000), (2, 0, 1000), (0, 3000, 1000), (1, 3000, 1000), (2, 3000, 1000)
    ]  # fmt: skip
    assert "3 ranks on 3 hosts, 2 calls in 4.000 ms" in text
    assert "clocks agree within 4.000 µs" in text


def test_the_merged_file_has_the_form_that_viewers_read(tmp_path: Path) -> None:
    write_traces(tmp_path)
    out = tmp_path / "elsewhere.json"
    assert merge(tmp_path, "-o", str(out)).returncode == 0
    document = json.loads(out.read_text())
    assert set(document) == {"traceEvents", "displayTimeUnit", "otherData"}
    for event in document["traceEvents"]:
        assert {"name", "ph", "pid", "tid", "args"} <= set(event)
        assert event["ph"] == "M" or event["ts"] >= 0
        assert event["ph"] != "X" or event["dur"] >= 0
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_slices_of_one_track_contain_each_other_or_are_apart() -> None:
    waits = [Peer(1, True, 5, 30, 100, 20), Peer(2, True, 5, 20, 100, 20), Peer(3, True, 5, 40, 120, 40)]
    call = record(0, 90, 200)._replace(peers=waits)
    slices = events.whole(call, 0, 1, range(4))
    assert [(each["name"], each["ts"], each["dur"]) for each in slices] == [
        ("allreduce ring", 0.09, 0.11),
        ("waits for ranks 1, 2", 0.1, 0.02),
        ("waits for rank 3", 0.12, 0.04),
    ]


def test_calls_that_were_overwritten_unseen_are_counted(tmp_path: Path) -> None:
    file = TraceFile(str(tmp_path), 0)
    file.open(size=1, host="host", run="one", offset=0, error=0)
    track = file.track("world", [0])
    track.follow(lambda number: [record(7, BEGAN, BEGAN + 10)._replace(peers=[])] if number < 8 else [])
    track.close()
    events, text = merged(tmp_path)
    assert [event["name"] for event in events if event["ph"] == "i"] == ["7 calls are missing"]
    assert "7 calls went by too fast to be written" in text


def change(path: Path, text: Callable[[str], str]) -> None:
    path.write_text(text(path.read_text()))


def change_header(path: Path, **facts: Any) -> None:
    lines = path.read_text().splitlines()
    header = json.loads(lines[1].removesuffix(","))
    header["args"] |= facts
    path.write_text("\n".join([lines[0], json.dumps(header) + ",", *lines[2:]]))


@pytest.mark.parametrize("cut", [1, 20])
def test_a_torn_last_line_is_left_out(tmp_path: Path, cut: int) -> None:
    write_traces(tmp_path)
    change(tmp_path / "rank-1.json", lambda text: text.removesuffix("\n]\n")[:-cut])
    events, _ = merged(tmp_path)
    assert [len(calls(events, rank)) for rank in range(2)] == [2, 1]


def refused(directory: Path, *options: str) -> str:
    run = merge(directory, *options)
    assert run.returncode == 2, run.stderr
    assert run.stdout == ""
    assert len(run.stderr.splitlines()) == 1
    assert run.stderr.startswith("unisono: ")
    assert not (directory / "merged.json").exists()
    return run.stderr


def test_a_directory_without_traces_is_refused(tmp_path: Path) -> None:
    assert "has no rank-N.json; run the job with UNISONO_TRACE=" in refused(tmp_path)
    assert "is not a directory" in refused(tmp_path / "nothing")


def test_missing_ranks_are_named(tmp_path: Path) -> None:
    write_traces(tmp_path, size=20)
    for rank in range(2, 20):
        (tmp_path / f"rank-{rank}.json").unlink()
    assert "has the traces of 2 of 20 ranks, but not of 2, 3, 4, 5, 6, 7, 8, 9 and more; copy" in refused(tmp_path)


def test_a_trace_of_another_run_is_refused(tmp_path: Path) -> None:
    write_traces(tmp_path, size=3, run="older")
    write_traces(tmp_path, size=2, run="newer")
    assert "rank-2.json is of another run than rank-0.json" in refused(tmp_path, "--partial")


def test_a_renamed_trace_is_refused(tmp_path: Path) -> None:
    write_traces(tmp_path)
    (tmp_path / "rank-1.json").rename(tmp_path / "rank-5.json")
    assert "rank-5.json is the trace of rank 1; it was renamed" in refused(tmp_path)


@pytest.mark.parametrize(
    "text",
    ["", "[\n", "[]", "{}", "\x00\xff" * 100, '[\n{"name":"x","ph":"X","pid":0,"tid":0,"ts":1,"dur":2,"args":{}}\n]\n'],
)
def test_a_file_that_is_no_trace_of_ours_is_refused(tmp_path: Path, text: str) -> None:
    write_traces(tmp_path)
    (tmp_path / "rank-1.json").write_text(text)
    assert "rank-1.json is not a trace that unisono wrote" in refused(tmp_path)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ('{"name":"x",', "line 8: not JSON"),
        ("[" * 100_000, "line 8: not JSON"),
        ("17,", "line 8: not an event"),
        ('{"name":"x","ph":"X","pid":0,"tid":0,"ts":"soon","dur":2,"args":{}},', "line 8: not an event"),
        ('{"name":"x","ph":"X","pid":0,"tid":0,"ts":1,"args":{}},', "line 8: not an event"),
        ('{"name":"x","ph":"?","pid":0,"tid":0,"ts":1,"args":{}},', "line 8: not an event"),
    ],
)
def test_a_damaged_line_is_named(tmp_path: Path, line: str, complaint: str) -> None:
    write_traces(tmp_path)
    lines = (tmp_path / "rank-1.json").read_text().splitlines()
    (tmp_path / "rank-1.json").write_text("\n".join([*lines[:7], line, *lines[7:]]))
    assert f"rank-1.json, {complaint}" in refused(tmp_path)


@pytest.mark.parametrize(
    ("facts", "complaint"),
    [
        ({"format": 2}, "has format 2; this version of unisono reads 1"),
        ({"clock_offset_ns": "late"}, "has no valid 'clock_offset_ns' in its first event"),
        ({"rank": 7}, "says that it is of rank 7 of 2"),
        ({"size": 10**15}, "has the traces of 2 of 1000000000000000 ranks"),
    ],
)
def test_a_header_that_makes_no_sense_is_refused(tmp_path: Path, facts: dict[str, Any], complaint: str) -> None:
    write_traces(tmp_path)
    for rank in (0, 1):
        change_header(tmp_path / f"rank-{rank}.json", **facts)
    assert complaint in refused(tmp_path)


def test_an_output_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    write_traces(tmp_path)
    assert "cannot be written: " in refused(tmp_path, "-o", str(tmp_path / "nowhere" / "out.json"))
