"""A rank looks after the others, and can be asked, whatever its program does: in a call, in a thread's call, in none.

Its thread reads the control connections. Who sees a call fail tells rank 0, rank 0 decides what the first cause was
(`desk.py`) and tells everybody. The thread then tells its executor, so that every rank that is in a call leaves it, and
a rank that is in none raises at its next one. When all have raised and nobody is lost, the ranks begin a new epoch
together, in which nothing of the old one counts.
"""

from __future__ import annotations

import socket
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from time import monotonic, monotonic_ns
from typing import TYPE_CHECKING, Any

from ..errors import DeadlineExceeded, UnisonoError
from ..trace.record import Record
from . import words
from .control import Control
from .conversation import Loop, Talk, pause, readable
from .desk import Desk
from .fork import in_a_forked_child
from .frames import Closed, Frame, Garbled, Kind
from .incident import Report, Status, Verdict, packed, unpacked_status, unpacked_verdict
from .status import Whereabouts, facts_of
from .words import Names

if TYPE_CHECKING:
    from .._native import Executor

SUSPICIOUS_WAIT = 1.0  # after which the ranks' calls are compared: those that only wait for each other send nothing
LONG_WAIT = 10.0  # after which rank 0 says who is waited for
BETWEEN_LOOKS = 0.5
PATIENCE_FOR_A_VERDICT = 0.9
SECONDS_TO_SAY_GOODBYE = 0.2
MOST_PAST = 64  # verdicts, for calls that were started before them and are waited for later


class Lookout:
    """One rank's. Owns its thread, its descriptors and, once started, the control connections."""

    def __init__(self, control: Control) -> None:
        self.rank, self.size = control.rank, control.size
        self.left: dict[int, Status] = {}  # in order, with what they did last
        self.gone: set[int] = set()  # without a word
        self.names = Names(control.names, self.left)
        self._control = control
        self._news = threading.Condition()  # for what follows
        self._epoch = 0
        self._verdict: Verdict | None = None
        self._seen = False  # by the program here
        self._past: dict[int, Verdict] = {}  # by epoch
        self._wholes: dict[str, list[Any]] = {}
        self._present: dict[str, list[int]] = {}
        self._thread: threading.Thread | None = None
        self.when_told: Callable[[UnisonoError], None] | None = None
        """Called in the thread, with a verdict, when all who have to hear it were told."""

    def start(self, whereabouts: Whereabouts, executor: Executor) -> None:
        """From here on, nobody else reads the control connections."""
        if not self.peers:
            return
        self._whereabouts, self._executor = whereabouts, executor
        self._desk = Desk(self) if self.rank == 0 else None
        self._loop = Loop()
        self._errands: deque[Callable[[], None]] = deque()
        self._wake, self._woken = socket.socketpair()
        self._wake.setblocking(False)
        self._woken.setblocking(False)
        self._outboxes: dict[int, deque[tuple[Kind, dict[str, Any]]]] = {rank: deque() for rank in self.peers}
        self._writing: set[int] = set()
        self._waits: set[tuple[int, str]] = set()  # that were told of the last call that took long: its number, what
        self._stopping = False
        self._thread = threading.Thread(target=self._look_out, name="unisono-lookout", daemon=True)
        in_a_forked_child(self, Lookout._let_go)
        self._thread.start()

    # For the threads that make calls

    @property
    def peers(self) -> list[int]:
        """Rank 0 has everybody else, the others have rank 0."""
        return list(self._control.channels)

    @property
    def epoch(self) -> int:
        return self._epoch

    @property
    def verdict(self) -> Verdict | None:
        return self._verdict

    @property
    def lost(self) -> frozenset[int]:
        """The ranks that all others go on without, as far as this one knows."""
        return frozenset(self._verdict.lost if self._verdict else ()) | self.gone

    @property
    def may_begin_again(self) -> bool:
        """Is there a verdict that all can recover from, and has the program seen it?"""
        with self._news:
            return self._verdict is not None and self._seen and not self._verdict.is_final

    def verdict_of(self, epoch: int) -> Verdict | None:
        """The one that ended this epoch."""
        with self._news:
            return self._verdict if epoch == self._epoch else self._past.get(epoch)

    def seen(self) -> None:
        """The program here has caught the verdict."""
        with self._news:
            self._seen = self._verdict is not None

    def tell(self, report: Report) -> None:
        """Let all ranks know; does not wait."""
        if self._thread:
            self._soon(lambda: self._hear(report))

    def settle(self, report: Report) -> Verdict | None:
        """What all ranks raise for what one, or several, have seen; nothing if there is nobody else.

        If rank 0 says nothing, it is taken for the cause, until it does.
        """
        if not self._thread:
            return None
        self._soon(lambda: self._hear(report))
        with self._news:
            self._news.wait_for(lambda: self._verdict is not None, PATIENCE_FOR_A_VERDICT)
            if self._verdict is None and self.rank and self._epoch == report.epoch:
                message = words.of_silence(report, self.names)
                self._verdict = Verdict(
                    report.epoch, report.error, message, [0, *report.ranks], [0], self.rank, provisional=True
                )
            return self._verdict

    def exchange(self, what: str, value: Any, *, epoch: int, seconds: float) -> list[Any]:
        """Every rank's value, by rank, after the failure that ended an epoch. May be repeated after a deadline.

        Raises the verdict if a worse one comes meanwhile.
        """
        tag, before = f"{epoch}.{what}", self._verdict
        self._soon(lambda: self._say_part(tag, value))
        with self._news:
            if self._news.wait_for(lambda: tag in self._wholes or self._verdict != before, seconds):
                if self._verdict is not None and self._verdict != before:
                    self._seen = True
                    raise self._verdict.exception()
                return self._wholes.get(tag, [])
            missing = [rank for rank in range(self.size) if rank not in self._present.get(tag, [self.rank])]
        raise DeadlineExceeded(
            f"{self.names[self.rank]} has waited {seconds:.3g} s for {self.names.all(missing)} to make a call again, "
            f"after all ranks were told: {before.message if before else ''}"
        )

    def close(self) -> None:
        """Says goodbye, with the last call, and hangs up; may be called twice."""
        if self._thread:
            self._soon(self._leave)
            self._thread.join()
            self._let_go()
        self._control.hang_up()

    def _let_go(self) -> None:
        if self._thread is None:
            return
        self._thread = self._desk = None
        del self._executor  # which would live as long as a cycle of ours otherwise
        self._wake.close()
        self._woken.close()

    # In the thread

    def status(self, sequence: int | None = None) -> Status:
        return self._whereabouts.status(sequence)

    def begin(self, talk: Talk[None]) -> None:
        self._loop.start(talk)

    def post(self, rank: int, kind: Kind, body: dict[str, Any]) -> None:
        """After all that was posted to it before."""
        if rank in self.gone or rank in self.left:
            return
        self._outboxes[rank].append((kind, body))
        if rank not in self._writing:
            self._writing.add(rank)
            self._loop.start(self._write(rank))

    def decide(self, verdict: Verdict) -> None:
        """All calls here end. What rank 0 says later takes the place of what this rank has made up by itself."""
        with self._news:
            first = self._verdict
            if verdict.epoch != self._epoch or (first and first.is_final and not first.provisional):
                return
            if first and not self._seen and not first.provisional:  # it goes before its consequences
                verdict = replace(first, lost=verdict.lost)
            self._verdict, self._seen = verdict, False
            self._executor.give_up_from(verdict.sequence)
            self._news.notify_all()
        if self.when_told:
            self.when_told(verdict.exception())

    def here(self, tag: str, ranks: list[int]) -> None:
        with self._news:
            self._present[tag] = ranks

    def whole(self, tag: str, values: list[Any]) -> None:
        """Everybody's part of an exchange. After the last one, there is a new epoch."""
        with self._news:
            self._wholes = {tag: values}
            if tag.endswith(".clean"):
                if self._verdict:
                    self._past = {**dict(list(self._past.items())[-MOST_PAST:]), self._epoch: self._verdict}
                self._epoch += 1
                self._verdict, self._seen = None, False
                self._executor.give_up_nothing()
            self._news.notify_all()

    def _look_out(self) -> None:
        with self._loop:
            self._loop.start(self._do_errands())
            self._loop.start(self._notice_long_waits())
            for rank in self.peers:
                self._loop.start(self._read(rank))
            self._loop.run(lambda: self._stopping)
            with suppress(TimeoutError):
                self._loop.run(lambda: not self._writing, monotonic() + SECONDS_TO_SAY_GOODBYE)

    def _soon(self, errand: Callable[[], None]) -> None:
        self._errands.append(errand)
        with suppress(BlockingIOError):  # it is full of what wakes it
            self._wake.send(b".")

    def _do_errands(self) -> Talk[None]:
        while True:
            yield readable(self._woken)
            with suppress(BlockingIOError):
                self._woken.recv(4096)
            while self._errands:
                self._errands.popleft()()

    def _leave(self) -> None:
        body = packed(self.status())
        for rank in self.peers:
            self.post(rank, Kind.BYE, body)
        self._stopping = True

    def _hear(self, report: Report) -> None:
        if self._desk:
            self._desk.hear(report)
        else:
            self.post(0, Kind.REPORT, packed(report))

    def _say_part(self, tag: str, value: Any) -> None:
        if self._desk:
            self._desk.take_part(self.rank, tag, value)
        else:
            self.post(0, Kind.PART, {"tag": tag, "value": value})

    def _write(self, rank: int) -> Talk[None]:
        outbox = self._outboxes[rank]
        try:
            while outbox:
                yield from self._control.channels[rank].send(*outbox.popleft())
        except Closed:
            outbox.clear()  # whoever reads hears of it, too, after the last words
        finally:
            self._writing.discard(rank)

    def _read(self, rank: int) -> Talk[None]:
        channel = self._control.channels[rank]
        try:
            while rank not in self.left:
                self._heard(rank, (yield from channel.receive(*Kind)))
        except (Closed, Garbled) as error:
            self._lose(rank, f"its control connection ended: {error}")

    def _heard(self, rank: int, frame: Frame) -> None:
        body = frame.body
        if frame.kind is Kind.BYE:
            self._let_leave(rank, unpacked_status(body))
        elif frame.kind is Kind.ASK:
            self.post(rank, Kind.ANSWER, {"number": body.get("number"), **packed(self.status(body.get("sequence")))})
        elif frame.kind is Kind.VERDICT_OF_ALL:
            self.decide(unpacked_verdict(body))
        elif frame.kind is Kind.PRESENT:
            self.here(frame.get("tag", str), frame.get("ranks", list))
        elif frame.kind is Kind.WHOLE:
            self.whole(frame.get("tag", str), frame.get("values", list))
        elif frame.kind is Kind.ABORT:  # it did not get as far as this
            raise Closed(str(body.get("message")))
        elif self._desk and self.rank == 0:
            self._desk.heard(rank, frame)
        else:
            raise Garbled(f"{frame.kind.name} is for rank 0")

    def _let_leave(self, rank: int, status: Status) -> None:
        self.left[rank] = status
        if rank == 0:
            self._desk = Desk(self)
        if self._desk and self._verdict:
            self._desk.miss(rank)

    def _lose(self, rank: int, why: str) -> None:
        self.gone.add(rank)
        if rank == 0:
            self._desk = Desk(self)
        if self._desk:
            self._desk.lose(rank, why)

    def _notice_long_waits(self) -> Talk[None]:
        while True:
            yield pause(BETWEEN_LOOKS)
            record = self._whereabouts.running()
            if record is not None and not self._verdict:
                waited = (monotonic_ns() - record.began) / 1e9
                for kind, least in (("SuspiciousWait", SUSPICIOUS_WAIT), ("LongWait", LONG_WAIT)):
                    if waited >= least:
                        self._tell_of_wait(kind, record, waited)

    def _tell_of_wait(self, kind: str, record: Record, waited: float) -> None:
        if (record.number, kind) in self._waits:
            return
        self._waits = {wait for wait in self._waits if wait[0] == record.number} | {(record.number, kind)}
        longest = max(record.peers, key=lambda peer: peer.waited, default=None)
        ranks = [longest.rank] if longest and longest.waited else []
        report = Report(self._epoch, self.rank, kind, ranks, call=facts_of(record), waited=waited)
        if self._desk:
            self._desk.hear_of_wait(report)
        else:
            self.post(0, Kind.LONG_WAIT, packed(report))
