"""When a call has failed for good, what this rank knows of its calls goes to a file: see `trace/dump.py`.

A rank learns of a failure by its own call, or from the lookout while it is elsewhere. The first of these fixes
what failed, when, and where the threads were: a rank that the others wait for is interesting for where it was then, not
for where it was when it made its next call. That one only adds how the calls ended.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from dataclasses import dataclass, replace
from itertools import count
from types import TracebackType
from typing import NamedTuple
from weakref import WeakValueDictionary

from ..config import Settings
from ..errors import ConfigError, ScheduleError, UnisonoError
from ..trace.dump import FORMAT, WORLD, Dump, Failure, write
from ..trace.stacks import Thread, current_threads, frames_of, innermost
from .flight import Flight


@dataclass(frozen=True)
class Witness:
    """Who dumps, of which communicator, and where to."""

    directory: str
    run: str
    job: str
    rank: int
    host: str
    names: list[str]
    communicator: str
    ranks: list[int]
    links: str
    deadline: float
    sharing: str = "none"

    def part(self, number: int | str, members: list[int]) -> Witness:
        """For a communicator of some of these ranks, the so-manieth that was made of this one."""
        name = f"{self.communicator}.{number}.{members[0]}"
        return replace(self, communicator=name, ranks=[self.ranks[member] for member in members])

    def dump(self, notice: Notice, flight: Flight) -> Dump:
        return Dump(
            format=FORMAT,
            run=self.run,
            job=self.job,
            rank=self.rank,
            size=len(self.names),
            host=self.host,
            pid=os.getpid(),
            names=self.names,
            communicator=self.communicator,
            ranks=self.ranks,
            clock=notice.clock,
            monotonic=notice.monotonic,
            failure=notice.failure,
            calls=flight.calls_since(),
            threads=notice.threads,
            links=self.links,
            sharing=self.sharing,
            deadline=self.deadline,
        )


def witness_of(settings: Settings, names: list[str]) -> Witness | None:
    """For the communicator of all ranks; None where nothing is to be dumped, or nobody could have waited."""
    if settings.dump is None or settings.size == 1:
        return None
    return Witness(
        directory=os.path.abspath(settings.dump),
        run=f"{settings.job}, {names[0]}",
        job=settings.job,
        rank=settings.rank,
        host=settings.host,
        names=names,
        communicator=WORLD,
        ranks=list(range(settings.size)),
        links=settings.links,
        deadline=settings.deadline,
    )


class Notice(NamedTuple):
    """The moment at which this rank learned of a failure."""

    failure: Failure
    clock: float
    monotonic: int
    threads: list[Thread]
    last_call: int  # the number of the newest call then
    is_final: bool  # a call has failed of it, so that nothing is to be added


class BlackBox:
    """Of one communicator. Each failure is written once, twice if it was heard of before a call failed of it."""

    def __init__(self, witness: Witness, flight: Flight) -> None:
        self._witness = witness
        self._flight = flight
        self._notice: Notice | None = None
        self._lock = threading.RLock()  # a signal may come while this is held, and its handler make a call
        self._process = os.getpid()
        self._number = next(_numbers)
        _open_boxes[self._number] = self
        _watch_for_uncaught()

    def close(self) -> None:
        """From now on nothing can go wrong here."""
        _open_boxes.pop(self._number, None)

    def failed(self, error: BaseException, *, noticed_here: bool) -> None:
        """A call did, and raises this."""
        if not isinstance(error, (ConfigError, ScheduleError)) and _is_grave(error):
            self._write(error, noticed_here=noticed_here, is_final=True, is_first=noticed_here)

    def heard(self, cause: UnisonoError) -> None:
        """Another rank has given up; this one may be anywhere."""
        self._write(cause, noticed_here=False, is_final=False)

    def left(self, error: BaseException | None) -> None:
        """The program goes, or leaves the communicator, with an error of its own. A call's is known already."""
        is_usual = error is None or (isinstance(error, SystemExit) and not error.code)
        if error is not None and not is_usual and not isinstance(error, UnisonoError):
            self._write(error, noticed_here=True, is_final=True)

    def _write(self, error: BaseException, *, noticed_here: bool, is_final: bool, is_first: bool = False) -> None:
        """What was heard of may be the echo of the first cause, which is told to all before it is written here."""
        if os.getpid() != self._process:
            return
        try:
            with self._lock:
                known = self._known()
                if known and (known.is_final or not is_final):
                    return
                failure = _failure(error, self._witness.rank if noticed_here else None)
                notice = known or self._new_notice(error, failure)
                self._notice = notice._replace(is_final=is_final, failure=failure if is_first else notice.failure)
                write(self._witness.directory, self._witness.dump(self._notice, self._flight))
        except Exception as problem:  # what the caller has to see is the failure, not this
            print(
                f"unisono: rank {self._witness.rank} cannot write what it did to {self._witness.directory}: {problem}",
                file=sys.stderr,
                flush=True,
            )

    def _known(self) -> Notice | None:
        """The last notice, unless the communicator has worked again since."""
        if self._notice is None:
            return None
        later = self._flight.calls_since(self._notice.last_call + 1)
        return None if any(call.outcome == "done" for call in later) else self._notice

    def _new_notice(self, error: BaseException, failure: Failure) -> Notice:
        last = max((call.number for call in self._flight.calls_since()), default=-1)
        threads = current_threads(raised=None if isinstance(error, UnisonoError) else error.__traceback__)
        return Notice(failure, time.time(), time.monotonic_ns(), threads, last, is_final=False)


def _failure(error: BaseException, told_by: int | None) -> Failure:
    at = None if isinstance(error, UnisonoError) else innermost(frames_of(error.__traceback__))
    return Failure(type(error).__name__, str(error), at.place if at else "", told_by)


def _is_grave(error: BaseException) -> bool:
    return isinstance(error, UnisonoError) or not isinstance(error, Exception)


_numbers = count()
_open_boxes: WeakValueDictionary[int, BlackBox] = WeakValueDictionary()
"""In the order in which they were made."""

_is_watching = False


def note_uncaught(error: BaseException) -> None:
    """The program of this rank ends with it."""
    for box in list(_open_boxes.values()):
        box.left(error)


def _watch_for_uncaught() -> None:
    global _is_watching
    if _is_watching:
        return
    _is_watching = True
    show = sys.excepthook

    def note_and_show(kind: type[BaseException], error: BaseException, at: TracebackType | None) -> None:
        note_uncaught(error)
        show(kind, error, at)

    sys.excepthook = note_and_show
