"""Calls as events of the Trace Event Format, which Perfetto and chrome://tracing read.

A process of the trace is a rank, a thread is a communicator of it. Times are microseconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from .record import Peer, Record

Event = dict[str, Any]

HEADER, COMMUNICATOR = "unisono", "unisono communicator"
"""Metadata of our own, which viewers pass over."""

FORMAT = 1


def microseconds(nanoseconds: int) -> float:
    return round(nanoseconds / 1e3, 3)


def header(*, rank: int, size: int, host: str, pid: int, run: str, offset: int, error: int) -> list[Event]:
    """Who writes, and what to add to its clock to get rank 0's."""
    facts = {"format": FORMAT, "rank": rank, "size": size, "host": host, "pid": pid, "run": run}
    return [
        _metadata(HEADER, rank, 0, {**facts, "clock_offset_ns": offset, "clock_error_ns": error}),
        _metadata("process_name", rank, 0, {"name": f"rank {rank} ({host}, pid {pid})"}),
        _metadata("process_sort_index", rank, 0, {"sort_index": rank}),
    ]


def communicator(rank: int, track: int, identity: str, ranks: Sequence[int]) -> list[Event]:
    """A track, and the ranks whose calls it shows."""
    name = f"{identity} (rank {ranks.index(rank)} of {len(ranks)})"
    return [
        _metadata(COMMUNICATOR, rank, track, {"identity": identity, "ranks": list(ranks)}),
        _metadata("thread_name", rank, track, {"name": name}),
        _metadata("thread_sort_index", rank, track, {"sort_index": track}),
    ]


def whole(record: Record, rank: int, track: int, ranks: Sequence[int]) -> list[Event]:
    """A call that has ended, with the longest wait for each peer inside of it."""
    assert record.ended is not None
    event = _event("X", record, rank, track, record.began)
    event |= {"dur": microseconds(record.ended - record.began), "args": _arguments(record, ranks)}
    return [event, *_waits(record, rank, track, ranks)]


def beginning(record: Record, rank: int, track: int, ranks: Sequence[int]) -> list[Event]:
    """A call that goes on; `ending` belongs to it, if it comes to that."""
    return [_event("B", record, rank, track, record.began) | {"args": _arguments(record, ranks)}]


def ending(record: Record, rank: int, track: int, ranks: Sequence[int]) -> list[Event]:
    assert record.ended is not None
    end = _event("E", record, rank, track, record.ended) | {"args": _arguments(record, ranks)}
    return [*_waits(record, rank, track, ranks), end]


def gap(rank: int, track: int, calls: int, at: int) -> Event:
    """Calls that were overwritten before anybody read them."""
    place = {"pid": rank, "tid": track, "ts": microseconds(at), "s": "t"}
    return {"name": f"{calls} calls are missing", "cat": "trace", "ph": "i", **place, "args": {"missing": calls}}


def _event(phase: str, record: Record, rank: int, track: int, at: int) -> Event:
    category = "point to point" if record.sequence is None else "collective"
    return {"name": str(record.kind), "cat": category, "ph": phase, "pid": rank, "tid": track, "ts": microseconds(at)}


def _arguments(record: Record, ranks: Sequence[int]) -> dict[str, Any]:
    """Facts, and per rank when its first frame came after the call began, and how long it was waited for."""
    known = {"sequence": record.sequence, **record.kind._asdict(), "bytes": record.bytes, "where": record.where}
    facts = {name: value for name, value in known.items() if value not in (None, "")}
    arrived = {
        str(ranks[peer.rank]): microseconds(peer.arrived - record.began)
        for peer in record.peers
        if peer.arrived is not None
    }
    waited = {str(ranks[peer.rank]): microseconds(peer.waited) for peer in record.peers if peer.waited}
    outcome: dict[str, Any] = {} if record.outcome == "done" else {"outcome": record.outcome}
    absent = [ranks[peer.rank] for peer in record.peers if peer.expected and peer.arrived is None]
    outcome |= {"absent": absent} if absent else {}
    peers = [ranks[peer.rank] for peer in record.peers]
    return {**facts, **outcome, "peers": peers, "arrived_us": arrived, "waited_us": waited}


def _waits(record: Record, rank: int, track: int, ranks: Sequence[int]) -> Iterator[Event]:
    """Ranks that were awaited at the same time have one slice: a call waits for some of them, then for others."""

    def when(peer: Peer) -> tuple[int, int]:
        return peer.longest_began, peer.longest

    for (began, length), awaited in groupby(sorted((p for p in record.peers if p.longest), key=when), key=when):
        names = [ranks[peer.rank] for peer in awaited]
        yield {
            "name": f"waits for rank{'s' if len(names) > 1 else ''} {', '.join(map(str, names))}",
            "cat": "wait",
            "ph": "X",
            "pid": rank,
            "tid": track,
            "ts": microseconds(began),
            "dur": microseconds(length),
            "args": {"ranks": names},
        }


def _metadata(name: str, rank: int, track: int, arguments: dict[str, Any]) -> Event:
    return {"name": name, "ph": "M", "pid": rank, "tid": track, "args": arguments}
