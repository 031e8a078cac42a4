"""What this rank does, for those who ask: told by another thread, while its own is in a call or computes."""

from __future__ import annotations

import sys
import threading
from time import monotonic_ns
from types import FrameType

from ..trace.record import Record
from .flight import Flight
from .incident import CallFacts, Status
from .sites import PACKAGE


class Whereabouts:
    """Of one communicator's calls."""

    def __init__(self, flight: Flight) -> None:
        self._flight = flight
        self._newest = 0  # call that was seen under way

    def status(self, sequence: int | None = None) -> Status:
        """Now; and what is known of the call of all ranks that has this number."""
        records = self._flight.calls_since()
        asked = None if sequence is None else self.call(sequence)
        if not records:
            return Status(line=_line())
        last = records[-1]
        return Status(
            last=facts_of(last),
            in_call=last.ended is None,
            since=(monotonic_ns() - last.began) / 1e9,
            asked=facts_of(asked) if asked else None,
            line=_line(),
        )

    def call(self, sequence: int) -> Record | None:
        """The call of all ranks that has this number, if it is still on record."""
        return next((call for call in reversed(self._flight.calls_since()) if call.sequence == sequence), None)

    def failed(self) -> Record | None:
        """The call that failed: the first of those at the end that did; or the last one, after which something did."""
        records = self._flight.calls_since()
        failed = records[-1] if records else None
        for record in reversed(records):
            if record.ended is not None and not record.failed:
                break
            failed = record
        return failed

    def running(self) -> Record | None:
        """The call under way; asked for often, so that only new calls are looked at."""
        records = self._flight.calls_since(self._newest)
        if records:
            self._newest = records[-1].number
        return records[-1] if records and records[-1].ended is None else None


def facts_of(record: Record) -> CallFacts:
    return CallFacts(record.sequence, describe(record), record.where)


def describe(record: Record) -> str:
    """``allreduce ring of 4,096 bytes of float32, sum``: all that ranks have to agree on, as far as it is on record."""
    kind = record.kind
    size = f" of {record.bytes:,} bytes of {kind.dtype}" if kind.dtype and record.bytes else ""
    root = "" if kind.root is None else f", root {kind.root}"
    return f"{kind}{size}{f', {kind.op}' if kind.op and record.bytes else ''}{root}"


def _line() -> str:
    """Where the main thread is in the user's program: ``data.py:17 in load``."""
    frame: FrameType | None = sys._current_frames().get(threading.main_thread().ident or 0)
    while frame is not None and frame.f_code.co_filename.startswith(PACKAGE):
        frame = frame.f_back
    return "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"
