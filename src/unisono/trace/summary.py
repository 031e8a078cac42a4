"""What the traces of a run come to: the slowest call, who came last to it, and who was awaited most."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from .read import RankTrace


class Part(NamedTuple):
    """What one rank did of a call; seconds on rank 0's clock."""

    rank: int
    name: str
    began: float
    ended: float | None
    facts: dict[str, Any]

    @property
    def duration(self) -> float:
        return 0.0 if self.ended is None else self.ended - self.began


class CallOfAll(NamedTuple):
    """A collective call, on all ranks that have it."""

    parts: list[Part]

    @property
    def longest(self) -> Part:
        return max(self.parts, key=lambda part: part.duration)

    @property
    def last(self) -> Part:
        """The rank that came last."""
        return max(self.parts, key=lambda part: part.began)

    @property
    def spread(self) -> float:
        """From the first rank's coming to the last's."""
        return self.last.began - min(part.began for part in self.parts)


class Summary(NamedTuple):
    """Of a run."""

    ranks: list[int]
    size: int
    hosts: int
    calls: int
    span: float
    slowest: CallOfAll | None
    awaited: Counter[int]  # seconds that the others together have waited for a rank
    unfinished: list[Part]
    missing: int  # calls that were overwritten before they were written
    clock_error: float


def summarise(traces: Sequence[RankTrace]) -> Summary:
    """One pass over all calls."""
    calls: dict[tuple[Any, ...], CallOfAll] = defaultdict(lambda: CallOfAll([]))
    awaited: Counter[int] = Counter()
    unfinished: list[Part] = []
    missing = 0
    for trace in traces:
        for key, part in _parts(trace):
            calls[key].parts.append(part)
            for rank, waited in part.facts.get("waited_us", {}).items():
                awaited[int(rank)] += waited / 1e6
            if part.ended is None:
                unfinished.append(part)
        missing += sum(event["args"].get("missing", 0) for event in trace.events if event["ph"] == "i")
    every = [part for call in calls.values() for part in call.parts]
    ends = [part.began if part.ended is None else part.ended for part in every]
    return Summary(
        ranks=[trace.rank for trace in traces],
        size=traces[0].size,
        hosts=len({trace.host for trace in traces}),
        calls=len(calls),
        span=max(ends) - min(part.began for part in every) if every else 0.0,
        slowest=max(calls.values(), key=lambda call: call.longest.duration, default=None),
        awaited=awaited,
        unfinished=unfinished,
        missing=missing,
        clock_error=max(trace.error for trace in traces) / 1e9,
    )


def _parts(trace: RankTrace) -> Iterator[tuple[tuple[Any, ...], Part]]:
    """The calls of a rank, with what they have in common with those of other ranks."""
    begun: dict[int, dict[str, Any]] = {}
    number = 0
    for event in trace.events:
        if event.get("cat") not in ("collective", "point to point"):
            continue
        if event["ph"] == "B":
            begun[event["tid"]] = event
            continue
        start = begun.pop(event["tid"], event) if event["ph"] == "E" else event
        end = event["ts"] + event.get("dur", 0.0)
        number += 1
        yield _key(trace, event, number), _part(trace, event, start["ts"], end)
    for event in begun.values():
        number += 1
        yield _key(trace, event, number), _part(trace, event, event["ts"], None)


def _key(trace: RankTrace, event: dict[str, Any], number: int) -> tuple[Any, ...]:
    group = trace.groups.get(event["tid"])
    sequence = event["args"].get("sequence")
    if group is None or sequence is None:  # a call that this rank made alone with another
        return trace.rank, number
    return group.identity, *group.ranks, sequence


def _part(trace: RankTrace, event: dict[str, Any], began: float, ended: float | None) -> Part:
    offset = trace.offset / 1e3
    seconds = None if ended is None else (ended + offset) / 1e6
    return Part(trace.rank, event["name"], (began + offset) / 1e6, seconds, event["args"])
