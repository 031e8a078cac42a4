"""Operations as events of the Trace Event Format, which Perfetto and chrome://tracing read.

A thread of the trace is one of the engine, and an arrow is a dependency.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

from ..trace.events import Event, microseconds
from .dependencies import MODES, Entry, dependencies

BESIDES = 1000
"""Operations that overlap others of their thread are asynchronous: they have tracks of their own, from here on."""


def events(entries: list[Entry]) -> Iterator[Event]:
    """Of operations that have begun."""
    shown = [entry for entry in entries if entry.begun]
    tracks = _tracks(shown)
    process = os.getpid()
    yield {"name": "process_name", "ph": "M", "pid": process, "tid": 0, "args": {"name": f"engine (pid {process})"}}
    for track in sorted(set(tracks.values())):
        name = f"thread {track}" if track < BESIDES else f"asynchronous {track - BESIDES}"
        yield {"name": "thread_name", "ph": "M", "pid": process, "tid": track, "args": {"name": name}}
        yield {"name": "thread_sort_index", "ph": "M", "pid": process, "tid": track, "args": {"sort_index": track}}
    for entry in shown:
        yield _slice(entry, process, tracks[entry.serial])
    by_serial = {entry.serial: entry for entry in shown}
    for number, edge in enumerate(dependencies(shown)):
        before, after = by_serial[edge.before], by_serial[edge.after]
        if before.ended:
            common = {"name": edge.variable, "cat": "dependency", "id": number, "pid": process}
            start, finish = tracks[before.serial], tracks[after.serial]
            yield {**common, "ph": "s", "tid": start, "ts": microseconds(_last_moment(before))}
            yield {**common, "ph": "f", "bp": "e", "tid": finish, "ts": microseconds(after.begun)}


def write(entries: list[Entry], path: str | Path) -> None:
    Path(path).write_text(
        "[\n" + ",\n".join(json.dumps(event) for event in events(entries)) + "\n]\n", encoding="utf-8"
    )


def _last_moment(entry: Entry) -> int:
    """Inside of its slice, to which the arrow belongs."""
    return max(entry.begun, entry.ended - 1)


def _slice(entry: Entry, process: int, track: int) -> Event:
    uses = {
        MODES[mode]: [touch.name for touch in entry.touches if touch.mode == mode]
        for mode in range(len(MODES))
        if any(touch.mode == mode for touch in entry.touches)
    }
    waited = max(entry.begun - entry.ready, 0) if entry.ready else 0
    facts = {"serial": entry.serial, "pushed at": entry.where, **uses, "failed": entry.failed}
    duration = (entry.ended or entry.begun) - entry.begun
    return {
        "name": entry.name, "cat": "operation", "ph": "X", "pid": process, "tid": track,
        "ts": microseconds(entry.begun), "dur": microseconds(duration),
        "args": {**facts, "waited_for_variables_us": microseconds(max(entry.ready - entry.pushed, 0)),
                 "waited_for_a_thread_us": microseconds(waited)},
    }  # fmt: skip


def _tracks(entries: list[Entry]) -> dict[int, int]:
    free_from: dict[int, int] = {}  # of each track
    found = {}
    for entry in sorted(entries, key=lambda entry: entry.begun):
        track = entry.thread
        if free_from.get(track, 0) > entry.begun:
            track = next(track for track in _besides() if free_from.get(track, 0) <= entry.begun)
        free_from[track] = entry.ended or (1 << 63)
        found[entry.serial] = track
    return found


def _besides() -> Iterator[int]:
    number = BESIDES
    while True:
        yield number
        number += 1
