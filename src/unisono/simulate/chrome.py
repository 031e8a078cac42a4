"""A simulation as a Chrome trace, for Perfetto: a process per rank, with tracks for what it sends and receives.

What overlaps has tracks of its own, since viewers do not show overlapping slices of one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from .outcome import Flights, Outcome

Event = dict[str, Any]
MOST_MESSAGES = 15_000
"""Four events each: together about 8 MB. Viewers stop at some hundred."""

TRACKS = 64
"""Of each kind and rank."""


def chrome_trace(outcome: Outcome) -> str:
    """Events of the first messages of the first ranks, as JSON; needs a simulation that recorded them."""
    assert outcome.flights is not None, "simulate(…, record=True)"
    events = list(_events(outcome, outcome.flights))
    return "[\n" + ",\n".join(json.dumps(event, separators=(",", ":")) for event in events) + "\n]\n"


def _events(outcome: Outcome, flights: Flights) -> Iterator[Event]:
    free: dict[tuple[int, str], list[float]] = {}
    named: set[tuple[int, int]] = set()
    rows = zip(*(column[:MOST_MESSAGES].tolist() for column in flights), strict=True)
    for number, (round_, source, target, nbytes, alone, ready, began, ended) in enumerate(
        sorted(rows, key=lambda row: row[5])
    ):
        facts = {
            "round": round_ + 1,
            "bytes": nbytes,
            "start-up µs": _microseconds(began - ready),
            "alone µs": _microseconds(alone),
        }
        for rank, peer, kind, phase in ((source, target, "sends", "s"), (target, source, "receives", "f")):
            track = _free_track(free.setdefault((rank, kind), []), ready, ended)
            place = {"pid": rank, "tid": track + (TRACKS if kind == "receives" else 0)}
            if (rank, place["tid"]) not in named:
                named.add((rank, place["tid"]))
                yield {"name": "process_name", "ph": "M", "pid": rank, "args": {"name": f"rank {rank}"}}
                yield {"name": "thread_name", "ph": "M", **place, "args": {"name": kind}}
            arrow = "to" if kind == "sends" else "from"
            span = {"ts": _microseconds(ready), "dur": _microseconds(ended) - _microseconds(ready)}
            yield {"name": f"{kind} {arrow} rank {peer}", "cat": kind, "ph": "X", **place, **span, "args": facts}
            at = began if phase == "s" else ended
            flow = {"id": number, "bp": "e"} if phase == "f" else {"id": number}
            yield {"name": "message", "cat": "message", "ph": phase, **place, "ts": _microseconds(at), **flow}
    yield {
        "name": f"{outcome.collective} {outcome.algorithm} on {outcome.topology.name}", "ph": "i", "s": "g",
        "pid": 0, "tid": 0, "ts": 0.0,
        "args": {"ranks": outcome.p, "seconds": outcome.time, "messages": outcome.messages,
                 "shown": min(len(flights.round), MOST_MESSAGES)},
    }  # fmt: skip


def _free_track(ends: list[float], begin: float, end: float) -> int:
    for track, busy_until in enumerate(ends):
        if busy_until <= begin:
            ends[track] = end
            return track
    if len(ends) < TRACKS:
        ends.append(end)
    return len(ends) - 1


def _microseconds(seconds: float) -> float:
    return round(seconds * 1e6, 4)
