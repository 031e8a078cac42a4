"""What this rank does, for those who ask: told by another thread, while its own is in a call or computes."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from time import monotonic_ns
from types import FrameType

from ..trace.record import Peer, Record
from .flight import Flight, Tally
from .incident import CallFacts, Errand, Message, Status
from .sites import PACKAGE

A_FEW_LOOKS = 200_000_000  # nanoseconds


class Whereabouts:
    """Of one communicator's calls."""

    def __init__(self, flight: Flight) -> None:
        self._flight = flight
        self._newest = 0  # call that was seen under way
        self.errand: Callable[[], Errand | None] = lambda: None
        """What else the program waits for, as it says itself."""

    def status(self, sequence: int | None = None, message: Message | None = None, rank: int = 0) -> Status:
        """Now; and what is known of the call of all ranks that has this number, or of that of a message, as a rank."""
        records, tally = self._flight.calls_since(), self._flight.tally()
        line, inside = _line()
        status = Status(line=line, inside=inside, errand=self.errand())
        if not records:
            return status
        last, now = records[-1], monotonic_ns()
        asked = _of(message, rank, tally, records) if message else None
        if sequence is not None:
            asked = facts_of(found) if (found := self.call(sequence)) else None
        # The numbers are of the call under way only if it still is.
        latest = self._flight.calls_since(last.number)
        of_two = last if [call.ended for call in latest] == [None] else None
        return replace(
            status,
            last=facts_of(last),
            in_call=last.ended is None,
            since=(now - last.began) / 1e9,
            asked=asked,
            of_all=tally.of_all,
            sent=tally.sent,
            received=tally.received,
            to=of_two.to if of_two else None,
            source=of_two.source if of_two else None,
            still=min((now - peer.longest_began if _waits(peer, now) else 0 for peer in last.peers), default=0) / 1e9,
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


def _of(message: Message, rank: int, tally: Tally, records: list[Record]) -> CallFacts | None:
    """The call of this message, if the rank has made it, and it is still on record."""
    other, sends = (message.receiver, True) if rank == message.sender else (message.sender, False)
    if not 0 <= other < len(tally.sent):
        return None
    through = tally.sent[other] if sends else tally.received[other]
    before = tally.of_all
    for record in reversed([call for call in records if call.number >= tally.since]):
        if record.sequence is not None:
            before = record.sequence
        elif other == (record.to if sends else record.source):
            through -= record.ended is not None and not record.failed
            if through == message.number:
                return replace(facts_of(record), before=before)
    return None


def _waits(peer: Peer, now: int) -> bool:
    """Is the longest wait for it the one that goes on? Looked at every 20 ms."""
    return peer.longest > 0 and now - (peer.longest_began + peer.longest) < A_FEW_LOOKS


def facts_of(record: Record) -> CallFacts:
    return CallFacts(record.sequence, describe(record), record.where)


def describe(record: Record) -> str:
    """``allreduce ring of 4,096 bytes of float32, sum``: all that ranks have to agree on, as far as it is on record."""
    kind = record.kind
    size = f" of {record.bytes:,} bytes of {kind.dtype}" if kind.dtype and record.bytes else ""
    root = "" if kind.root is None else f", root {kind.root}"
    to = "" if record.to is None else f" to rank {record.to}"
    source = "" if record.source is None else f" from rank {record.source}"
    return f"{kind}{to}{source}{size}{f', {kind.op}' if kind.op and record.bytes else ''}{root}"


def is_alone() -> bool:
    """Has the program no other thread that could do what the main one waits for?"""
    main = threading.main_thread()
    return all(each is main or each.daemon or each.name.startswith("unisono") for each in threading.enumerate())


def _line() -> tuple[str, bool]:
    """Where the main thread is in the user's program: ``data.py:17 in load``; and whether that has called us, and can
    only wait."""
    frame: FrameType | None = sys._current_frames().get(threading.main_thread().ident or 0)
    inside = frame is not None and frame.f_code.co_filename.startswith(PACKAGE) and is_alone()
    while frame is not None and frame.f_code.co_filename.startswith(PACKAGE):
        frame = frame.f_back
    line = "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"
    return line, inside
