"""Where it is decided why a call failed: on rank 0, for all ranks; on a rank that has lost rank 0, for itself.

Several ranks may see the same failure, and some only its consequences. The first that saw it counts; the others' words
are asked for where they help: which call each makes, from which line, and where those are that have not come.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from time import monotonic
from typing import Any, Protocol

from . import words
from .conversation import Talk, pause
from .divergence import Statuses, crossed, crossed_errand, unknown_message
from .frames import Frame, Garbled, Kind
from .incident import Message, Report, Status, Verdict, packed, unpacked_report, unpacked_status

PATIENCE = 0.25  # for somebody who knows more of a rank that is gone
PATIENCE_WITH_THE_LIVING = 0.6  # a rank that has given up a call is about to say why
SECONDS_TO_ANSWER = 0.3
LOOK = 0.005
ERRAND, CROSSING = "Errand", "Crossing"
"""Words for reports: a rank waits for others outside of calls; they wait for it in one."""


class Office(Protocol):
    """What the desk needs of the rank that it is on."""

    rank: int
    size: int
    names: words.Names
    gone: set[int]
    left: dict[int, Status]

    @property
    def epoch(self) -> int: ...
    @property
    def verdict(self) -> Verdict | None: ...
    @property
    def peers(self) -> list[int]: ...
    def status(self, sequence: int | None = None, message: Message | None = None) -> Status: ...
    def begin(self, talk: Talk[None]) -> None: ...
    def post(self, rank: int, kind: Kind, body: dict[str, Any]) -> None: ...
    def decide(self, verdict: Verdict) -> None: ...
    def here(self, tag: str, ranks: list[int]) -> None: ...
    def whole(self, tag: str, values: list[Any]) -> None: ...


class Desk:
    """Takes reports, gives verdicts. Everything here runs in the thread of the lookout."""

    def __init__(self, office: Office) -> None:
        self._office = office
        self._reports: list[Report] = []
        self._deciding = False
        self._questions = 0
        self._answers: dict[int, Status] = {}
        self._parts: dict[str, dict[int, Any]] = {}
        self._waits: list[Report] = []  # not looked into yet
        self._looking = False
        self._said: set[tuple[int, object]] = set()  # long waits that were told of: epoch and call

    def heard(self, rank: int, frame: Frame) -> None:
        if frame.kind is Kind.REPORT:
            self.hear(unpacked_report(frame.body))
        elif frame.kind is Kind.LONG_WAIT:
            self.hear_of_wait(unpacked_report(frame.body))
        elif frame.kind is Kind.PART:
            self.take_part(rank, frame.get("tag", str), frame.body.get("value"))
        elif frame.kind is Kind.ANSWER:
            body = dict(frame.body)
            if body.pop("number", None) == self._questions:
                self._answers[rank] = unpacked_status(body)
        else:
            raise Garbled(f"{frame.kind.name} is not expected")

    def hear(self, report: Report) -> None:
        """A call failed, as a rank saw it."""
        office = self._office
        if report.epoch != office.epoch or not all(0 <= rank < office.size for rank in report.ranks):
            return
        if office.verdict and (office.verdict.is_final or not set(report.ranks) & (office.gone | set(office.left))):
            return
        self._reports.append(report)
        if not self._deciding:
            self._deciding = True
            office.begin(self._decide())

    def lose(self, rank: int, why: str) -> None:
        """A rank is gone. Somebody may know more about it."""
        office = self._office
        status = office.status()
        call = status.last if status.in_call else None
        self.hear(Report(office.epoch, office.rank, "PeerLost", [rank], why, second_hand=True, call=call))

    def miss(self, rank: int) -> None:
        """A rank has left, though all have to begin again."""
        office = self._office
        self.hear(Report(office.epoch, office.rank, "PeerLost", [rank], "it has closed its communicator"))

    def take_part(self, rank: int, tag: str, value: Any) -> None:
        office = self._office
        parts = self._parts.setdefault(tag, {})
        parts[rank] = value
        present = sorted(parts)
        if len(parts) < office.size:
            office.here(tag, present)
            for other in present:
                if other != office.rank:
                    office.post(other, Kind.PRESENT, {"tag": tag, "ranks": present})
            return
        values = [parts[other] for other in present]
        self._parts = {}
        for other in office.peers:
            office.post(other, Kind.WHOLE, {"tag": tag, "values": values})
        office.whole(tag, values)

    def hear_of_wait(self, report: Report) -> None:
        """A call takes long."""
        if report.epoch == self._office.epoch and not self._office.verdict:
            self._waits.append(report)
            if not self._looking:
                self._looking = True
                self._office.begin(self._look_into_waits())

    def _look_into_waits(self) -> Talk[None]:
        """One after the other. Whoever waits in a call, one look at it is enough for what was heard before."""
        while self._waits:
            report = max(self._waits, key=lambda wait: wait.waited)
            self._waits = [other for other in self._waits if other is not report and not _are_alike(report, other)]
            while self._deciding:  # it asks questions of its own
                yield pause(LOOK)
            if not self._office.verdict and report.epoch == self._office.epoch:
                yield from self._look_into_errands(report) if report.error == ERRAND else self._look_into(report)
        self._looking = False

    def _look_into(self, report: Report) -> Talk[None]:
        if missed := self._missed(report):
            self.hear(replace(report, error="PeerLost", ranks=missed, reason="it has closed its communicator"))
            return
        statuses = yield from self._ask(_number(report))
        if self._office.verdict or self._deciding:
            return
        calls = {status.asked.what: rank for rank, status in statuses.items() if status and status.asked}
        mismatch = replace(report, error="MismatchError")
        if len(calls) > 1:
            self.hear(replace(mismatch, ranks=sorted(calls.values())))
        elif message := unknown_message(statuses):
            ranks = [message.sender, message.receiver]
            self.hear(replace(mismatch, ranks=ranks, message=message, reason=words.of_unknown(message)))
        elif ranks := crossed(statuses):
            self.hear(replace(mismatch, ranks=ranks, call=None, reason=words.CROSSED))
        elif report.error == "LongWait":
            self._say_once(report, statuses)

    def _say_once(self, report: Report, statuses: Statuses) -> None:
        """A call of all ranks takes long for many of them; one of two ranks is known by who waits in it."""
        number = _number(report)
        call = (report.epoch, (report.by, report.call) if number is None else number)
        if call not in self._said:
            self._said.add(call)
            print(f"unisono: {words.of_long_wait(report, statuses, self._office.names)}", file=sys.stderr, flush=True)

    def _look_into_errands(self, report: Report) -> Talk[None]:
        """Of all ranks at once, however many tell of one."""
        statuses = yield from self._ask(None)
        if self._office.verdict or self._deciding:
            return
        if pair := crossed_errand(statuses):
            reason = words.of_crossing(pair, statuses, self._office.names)
            self.hear(replace(report, error=CROSSING, ranks=list(pair), reason=reason))

    def _missed(self, report: Report) -> list[int]:
        """Who left before this call, which so cannot end. Who left after it is not missed, however long others take."""
        sequence, left = _number(report), self._office.left
        if sequence is None:  # of two ranks, one of which waits
            return [rank for rank in report.ranks if rank in left]
        return [rank for rank, status in sorted(left.items()) if status.next is not None and status.next <= sequence]

    def _decide(self) -> Talk[None]:
        began, office = monotonic(), self._office
        while all(report.second_hand for report in self._reports):
            about = {rank for report in self._reports for rank in report.ranks}
            if monotonic() > began + (PATIENCE if about & office.gone else PATIENCE_WITH_THE_LIVING):
                break
            yield pause(LOOK)
        report = self._first_cause()
        statuses: Statuses = {}
        if report.message:
            statuses = yield from self._ask_both(report.message)
        elif report.error in ("DeadlineExceeded", "MismatchError"):
            statuses = yield from self._ask(_number(report))
        verdict = self._judge(report, statuses)
        self._reports, self._deciding = [], False
        if office.rank == 0:
            for rank in office.peers:
                office.post(rank, Kind.VERDICT_OF_ALL, packed(verdict))
        office.decide(verdict)

    def _first_cause(self) -> Report:
        """Who is gone comes before who left after it, and who says nothing before who has reported something itself."""
        own = {report.by for report in self._reports}
        order: list[Callable[[Report], bool]] = [
            lambda report: not report.second_hand and (report.error != "PeerLost" or self._is_gone(report)),
            self._is_gone,
            lambda report: not report.second_hand and not own.intersection(report.ranks),
            lambda report: not report.second_hand,
        ]
        for wanted in order:
            for report in self._reports:
                if wanted(report):
                    return report
        return self._reports[0]

    def _is_gone(self, report: Report) -> bool:
        return bool(self._office.gone.intersection(report.ranks))

    def _ask_both(self, message: Message) -> Talk[Statuses]:
        """Two ranks: which call do you make in the place of that message? If not its own, the one of all ranks."""
        about = yield from self._ask(None, message)
        places = [status.asked.before for status in about.values() if status and status.asked]
        first = min((place for place in places if place is not None), default=None)
        instead = yield from self._ask(first)
        return {
            rank: status if status and status.asked and status.asked.before == first else instead.get(rank)
            for rank, status in about.items()
            if rank in (message.sender, message.receiver)
        }

    def _ask(self, sequence: int | None, message: Message | None = None) -> Talk[Statuses]:
        """Everybody: what do you do, and what do you know of that call?"""
        office = self._office
        self._questions += 1
        self._answers = {office.rank: office.status(sequence, message)}
        asked = [rank for rank in office.peers if office.rank == 0 and rank not in office.gone | set(office.left)]
        question = {"sequence": sequence, "message": packed(message) if message else None}
        for rank in asked:
            office.post(rank, Kind.ASK, {"number": self._questions, **question})
        until = monotonic() + SECONDS_TO_ANSWER
        while len(self._answers) <= len(asked) and monotonic() < until:
            yield pause(LOOK)
        return {rank: self._answers.get(rank) for rank in (office.rank, *asked)}

    def _judge(self, report: Report, statuses: Statuses) -> Verdict:
        office, names = self._office, self._office.names
        lost = office.gone | set(office.left)
        error, ranks = report.error, report.ranks
        if error == "Interrupted":
            error, ranks, message = "PeerLost", [report.by], words.of_interrupt(report, names)
        elif error == CROSSING:
            error, message = "MismatchError", report.reason
        elif error == "MismatchError":
            message = words.of_mismatch(report, statuses, names)
        elif error == "DeadlineExceeded":
            ranks = words.late(report, statuses)
            lost |= {rank for rank in ranks if not statuses.get(rank)}
            message = words.of_deadline(report, statuses, names)
        else:
            lost |= set() if report.second_hand else set(ranks)
            message = words.of_lost(report, names)
        sequence = None if lost or report.message else _number(report)
        return Verdict(report.epoch, error, message, list(ranks), sorted(lost), report.by, sequence)


def _number(report: Report) -> int | None:
    """Of the call of all ranks that it is about."""
    return report.call.sequence if report.call else None


def _are_alike(report: Report, other: Report) -> bool:
    """Does one look serve both waits?"""
    if ERRAND in (report.error, other.error):
        return report.error == other.error
    return _number(report) is not None and _number(report) == _number(other)
