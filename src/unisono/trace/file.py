"""The trace of one rank while it is written: DIR/rank-N.json, an event a line.

It grows while the rank runs, so that a rank that is killed leaves what it did until a moment before. Viewers read an
array whose closing bracket is missing.
"""

from __future__ import annotations

import atexit
import json
import os
import threading
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from ..errors import ConfigError
from . import events
from .record import Record

INTERVAL = 0.25
"""Seconds between two looks at what a rank does, also at a call that goes on."""

CALLS_BETWEEN_WRITES = 128
"""Half of what the flight recorder keeps: none is overwritten before it is written here."""

Source = Callable[[int], list[Record]]


class TraceFile:
    """Has a track for each communicator of a process, and is closed with the last of them."""

    def __init__(self, directory: str, rank: int) -> None:
        self.rank = rank
        self.path = Path(directory) / f"rank-{rank}.json"
        self._process = os.getpid()
        # Under another name until the ranks have met: it may take the place of another run's.
        self._draft = self.path.with_name(f".{self.path.name}.{self._process}")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = open(self._draft, "wb", buffering=0)  # noqa: SIM115
        except OSError as error:
            raise ConfigError(
                f"UNISONO_TRACE={directory}: rank {rank} cannot write {self.path}: {error.strerror}"
            ) from error
        self._lock = threading.RLock()
        self._tracks: list[Track] = []
        self._last_number = 0  # of a track
        self._is_empty = True
        self._stop = threading.Event()
        self._writer: threading.Thread | None = None

    def open(self, *, size: int, host: str, run: str, offset: int, error: int) -> None:
        """From here on it is the trace of this rank."""
        facts = {"rank": self.rank, "size": size, "host": host, "pid": self._process, "run": run}
        self._last_number = size  # a track with the number of a rank would be taken for its main thread
        self.write(events.header(**facts, offset=offset, error=error))  # type: ignore[arg-type]
        os.replace(self._draft, self.path)
        atexit.register(self.close)
        self._writer = threading.Thread(target=self._write_at_intervals, name="unisono trace", daemon=True)
        self._writer.start()

    def track(self, identity: str, ranks: Sequence[int]) -> Track:
        """A track for a communicator of these ranks of the job."""
        return Track(self, identity, ranks)

    def begin(self, track: Track) -> int:
        with self._lock:
            self._last_number += 1
            self._tracks.append(track)
            self.write(events.communicator(self.rank, self._last_number, track.identity, track.ranks))
            return self._last_number

    def end(self, track: Track) -> None:
        if not self.is_writable:
            return
        with self._lock:
            track.write_calls()
            self._tracks.remove(track)
        if not self._tracks:
            self.close()

    def write(self, written: Sequence[events.Event]) -> None:
        """All of these at once. What cannot be written ends the trace, not the program."""
        if not written or not self.is_writable:
            return
        lines = ",\n".join(json.dumps(event, separators=(",", ":")) for event in written)
        self._write(("[\n" if self._is_empty else ",\n") + lines)
        self._is_empty = False

    @property
    def is_writable(self) -> bool:
        """Not after the end, and not in a copy of the process, in which others may hold our lock for ever."""
        return not self._file.closed and os.getpid() == self._process

    def write_all(self) -> None:
        if not self.is_writable:
            return
        with self._lock:
            for track in self._tracks:
                track.write_calls()

    def close(self) -> None:
        """Complete it; may be called twice."""
        if not self.is_writable:
            return
        atexit.unregister(self.close)
        self._stop.set()
        if self._writer is not None and self._writer is not threading.current_thread():
            self._writer.join(10)
        with self._lock:
            self.write_all()
            if not self._is_empty and self.is_writable:
                self._write("\n]\n")
            self._file.close()
            with suppress(FileNotFoundError):
                self._draft.unlink()  # if it never came to be a trace

    def let_go(self) -> None:
        """In a copy of the process: the trace goes on without it."""
        self._file.close()

    def _write(self, text: str) -> None:
        data = memoryview(text.encode())
        try:
            while data:
                data = data[self._file.write(data) or 0 :]
        except OSError as error:
            self._file.close()
            self._stop.set()
            warnings.warn(f"the trace {self.path} ends here: {error.strerror}", RuntimeWarning, stacklevel=1)

    def _write_at_intervals(self) -> None:
        while not self._stop.wait(INTERVAL):
            self.write_all()


class Track:
    """The calls of one communicator."""

    def __init__(self, file: TraceFile, identity: str, ranks: Sequence[int]) -> None:
        self.file = file
        self.identity = identity
        self.ranks = list(ranks)
        self._number = 0
        self._source: Source = lambda number: []
        self._next = 0  # call to write
        self._going_on: int | None = None  # call whose beginning was written
        self._unwritten = 0

    def part(self, number: int | str, members: Sequence[int]) -> Track:
        """A track for a communicator of some of these ranks, the so-manieth that was made of this one."""
        return self.file.track(f"{self.identity}.{number}.{members[0]}", [self.ranks[rank] for rank in members])

    def follow(self, source: Source) -> None:
        """Write what this has, from now on: calls from a number on, the oldest first."""
        self._source = source
        self._number = self.file.begin(self)

    def count(self) -> None:
        """A call has been made."""
        self._unwritten += 1
        if self._unwritten >= CALLS_BETWEEN_WRITES:
            self.file.write_all()

    def close(self) -> None:
        self.file.end(self)

    def write_calls(self) -> None:
        """Called by the file, one thread at a time."""
        if not self.file.is_writable:
            return
        written: list[events.Event] = []
        self._unwritten = 0
        for record in self._source(self._next):
            written += self._events_of(record)
        self.file.write(written)

    def _events_of(self, record: Record) -> list[events.Event]:
        place = (record, self.file.rank, self._number, self.ranks)
        missing = record.number - self._next
        gap = [events.gap(self.file.rank, self._number, missing, record.began)] if missing else []
        self._next = record.number
        if record.ended is None:
            begun, self._going_on = self._going_on, record.number
            return gap + ([] if begun == record.number else events.beginning(*place))
        self._next += 1
        return gap + (events.ending(*place) if self._going_on == record.number else events.whole(*place))
