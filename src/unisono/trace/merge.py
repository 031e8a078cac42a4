"""The traces of all ranks as one, on the clock of rank 0."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from ..errors import ConfigError
from .events import Event
from .read import RankTrace


def merge(traces: Sequence[RankTrace]) -> list[Event]:
    """Metadata first, then all events by time, from 0 on; what contains others stands before them."""
    metadata = [event for trace in traces for event in trace.events if event["ph"] == "M"]
    timed = [_shifted(event, trace.offset / 1e3) for trace in traces for event in trace.events if event["ph"] != "M"]
    start = min((event["ts"] for event in timed), default=0.0)
    return metadata + sorted((_shifted(event, -start) for event in timed), key=_order)


def write(events: Sequence[Event], traces: Sequence[RankTrace], path: Path) -> None:
    """All at once: a file with this name is complete."""
    document = {
        "traceEvents": list(events),
        "displayTimeUnit": "ms",
        "otherData": {
            "clock": "that of rank 0",
            "clock error in µs": max(trace.error for trace in traces) / 1e3,
        },
    }
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        try:
            draft.write_text(json.dumps(document, separators=(",", ":")), encoding="utf-8")
            os.replace(draft, path)
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from error


def _shifted(event: Event, by: float) -> Event:
    return {**event, "ts": round(event["ts"] + by, 3)}


def _order(event: Event) -> tuple[float, bool, float]:
    return event["ts"], event["ph"] != "E", -event.get("dur", 0.0)
