"""A rank looks after the others, and can be asked, whatever its program does: in a call, in a thread's call, in none.

Who sees a call fail tells rank 0, by the thread of its `mail.py`; rank 0 decides what the first cause was (`desk.py`)
and tells everybody. The thread there tells its executor, so that every rank that is in a call leaves it, and a rank
that is in none raises at its next one. When all have raised and nobody is lost, the ranks begin a new epoch together,
in which nothing of the old one counts.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..errors import DeadlineExceeded, UnisonoError
from . import words
from .control import Control
from .conversation import Talk
from .desk import ERRAND, Desk
from .fork import in_a_forked_child
from .frames import Closed, Frame, Garbled, Kind
from .incident import (
    CallFacts,
    Message,
    Report,
    Status,
    Verdict,
    packed,
    unpacked_message,
    unpacked_status,
    unpacked_verdict,
)
from .long_waits import notice
from .mail import Mail
from .status import Whereabouts
from .words import Names

if TYPE_CHECKING:
    from .._native import Executor

PATIENCE_FOR_A_VERDICT = 0.9
MOST_PAST = 64  # verdicts, for calls that were started before them and are waited for later


class Lookout:
    """One rank's. Once started, it owns the control connections and a thread that reads them."""

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
        self._unanswered: list[Report] = []  # that rank 0 has not given its verdict on; only the thread knows them
        self._wholes: dict[str, list[Any]] = {}
        self._present: dict[str, list[int]] = {}
        self._mail: Mail | None = None
        self.when_told: Callable[[UnisonoError], None] | None = None
        """Called in the thread, with a verdict, when all who have to hear it were told."""

    def start(self, whereabouts: Whereabouts, executor: Executor) -> None:
        """From here on, nobody else reads the control connections."""
        if not self.peers:
            return
        self._whereabouts, self._executor = whereabouts, executor
        self._desk = Desk(self) if self.rank == 0 else None
        self._mail = Mail(
            self._control.channels,
            heard=self._heard,
            lost=self._lose,
            also=lambda: notice(whereabouts, self._tell_of_wait),
        )
        in_a_forked_child(self, Lookout._let_go)
        self._mail.start()

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
        if self._mail:
            self._mail.soon(lambda: self._hear(report))

    def tell_of_errand(self) -> None:
        """The program waits for others, and not in a call: they may wait for it in one."""
        report = Report(self._epoch, self.rank, ERRAND)
        if self._mail:
            self._mail.soon(lambda: self._hear_of_wait(report))

    def settle(self, report: Report) -> Verdict | None:
        """What all ranks raise for what one, or several, have seen; nothing if there is nobody else.

        If rank 0 says nothing, it is taken for the cause, until it does.
        """
        if not self._mail:
            return None
        self._mail.soon(lambda: self._hear(report))
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
        assert self._mail, "there are others"
        tag, before = f"{epoch}.{what}", self._verdict
        self._mail.soon(lambda: self._say_part(tag, value))
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

    @property
    def runs_here(self) -> bool:
        """In the thread that asks, which cannot wait for its own end?"""
        return self._mail is not None and self._mail.runs_here

    def close(self) -> None:
        """Says goodbye, with the last call, and hangs up; may be called twice."""
        if self._mail:
            self._mail.close(self._say_goodbye)
            self._let_go()
        self._control.hang_up()

    def _let_go(self) -> None:
        if self._mail:
            self._mail = self._desk = None  # ends a cycle of ours, in which the executor would live on
            del self._executor

    # In the thread

    def status(self, sequence: int | None = None, message: Message | None = None) -> Status:
        return self._whereabouts.status(sequence, message, self.rank)

    def begin(self, talk: Talk[None]) -> None:
        self._in_thread().begin(talk)

    def post(self, rank: int, kind: Kind, body: dict[str, Any]) -> None:
        """After all that was posted to it before."""
        if rank not in self.gone and rank not in self.left:
            self._in_thread().post(rank, kind, body)

    def decide(self, verdict: Verdict) -> None:
        """All calls here end. What rank 0 says later takes the place of what this rank has made up by itself."""
        self._unanswered = []
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

    def _in_thread(self) -> Mail:
        assert self._mail, "its thread calls"
        return self._mail

    def _say_goodbye(self) -> None:
        before = {str(rank): packed(status) for rank, status in self.left.items()}  # only rank 0 knows
        body = packed(replace(self.status(), next=self._executor.position()[0])) | {"before": before}
        for rank in self.peers:
            self.post(rank, Kind.BYE, body)

    def _hear(self, report: Report) -> None:
        if self._desk:
            self._desk.hear(report)
        else:
            self._unanswered.append(report)
            self.post(0, Kind.REPORT, packed(report))

    def _say_part(self, tag: str, value: Any) -> None:
        if self._desk:
            self._desk.take_part(self.rank, tag, value)
        else:
            self.post(0, Kind.PART, {"tag": tag, "value": value})

    def _heard(self, rank: int, frame: Frame) -> bool:
        """Whether there may be more."""
        body = frame.body
        if frame.kind is Kind.BYE:
            said = dict(body)
            for earlier, last in said.pop("before", {}).items():
                self.left[int(earlier)] = unpacked_status(last)
            self._let_leave(rank, unpacked_status(said))
        elif frame.kind is Kind.ASK:
            status = self.status(body.get("sequence"), unpacked_message(body.get("message")))
            self.post(rank, Kind.ANSWER, {"number": body.get("number"), **packed(status)})
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
        return rank not in self.left

    def _let_leave(self, rank: int, status: Status) -> None:
        self.left[rank] = status
        if rank == 0:
            self._decide_itself()
        if self._desk and self._verdict:
            self._desk.miss(rank)

    def _lose(self, rank: int, why: str) -> None:
        self.gone.add(rank)
        if rank == 0:
            self._decide_itself()
        if self._desk:
            self._desk.lose(rank, why)

    def _decide_itself(self) -> None:
        """Rank 0 does so no longer. What it was told last, it may not have read."""
        self._desk = Desk(self)
        for report in self._unanswered:
            self._desk.hear(report)

    def _tell_of_wait(self, kind: str, ranks: list[int], call: CallFacts, waited: float) -> None:
        self._hear_of_wait(Report(self._epoch, self.rank, kind, ranks, call=call, waited=waited))

    def _hear_of_wait(self, report: Report) -> None:
        if self._verdict:
            return
        if self._desk:
            self._desk.hear_of_wait(report)
        else:
            self.post(0, Kind.LONG_WAIT, packed(report))
