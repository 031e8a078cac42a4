"""What ranks tell each other about a failure: plain data, sent as JSON over the control connections."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

from ..errors import DeadlineExceeded, MismatchError, PeerLost, UnisonoError
from .frames import Garbled

ERRORS: dict[str, type[UnisonoError]] = {kind.__name__: kind for kind in (DeadlineExceeded, MismatchError, PeerLost)}
"""How a call can fail because of other ranks."""

T = TypeVar("T")


@dataclass(frozen=True)
class CallFacts:
    """A call of one rank, as another one has to know it in order to tell of it."""

    sequence: int | None  # of the calls of all ranks; None for a call of two ranks only
    what: str
    where: str  # file:line
    before: int | None = None  # for a call of two ranks: which call of all ranks comes next

    def __str__(self) -> str:
        number = "" if self.sequence is None else f"call {self.sequence}, "
        return f"{number}{self.what}{f' at {self.where}' if self.where else ''}"


@dataclass(frozen=True)
class Message:
    """One that two ranks exchange in a call of them alone."""

    sender: int
    receiver: int
    number: int  # of those that go this way, from 0


@dataclass(frozen=True)
class Errand:
    """What a rank waits for outside of its communicator's calls."""

    what: str
    where: str  # file:line
    key: str  # the same on all ranks that wait for the same
    ranks: list[int]  # that have to come
    since: float = 0.0  # seconds

    def __str__(self) -> str:
        return f"{self.what}{f' at {self.where}' if self.where else ''}"


@dataclass(frozen=True)
class Report:
    """How one rank saw a call fail."""

    epoch: int
    by: int
    error: str  # the name of its class
    ranks: list[int] = field(default_factory=list)  # that it is about
    reason: str = ""
    second_hand: bool = False  # somebody else knows more
    call: CallFacts | None = None
    round: str = ""
    waited: float = 0.0
    message: Message | None = None  # that one of two ranks does not know, or knows otherwise


@dataclass(frozen=True)
class Status:
    """What a rank does, told by a thread of its own while it does it."""

    last: CallFacts | None = None  # the call that it makes, or made last
    in_call: bool = False
    since: float = 0.0  # seconds since that call began
    asked: CallFacts | None = None  # what it knows of the call that was asked for
    line: str = ""  # where its program is, outside of unisono
    of_all: int = 0  # calls of all ranks that it has begun
    sent: list[int] = field(default_factory=list)  # messages to each rank, in calls of two ranks that are through
    received: list[int] = field(default_factory=list)  # and from each
    to: int | None = None  # whom the call under way sends to, if it is one of two ranks
    source: int | None = None  # and receives from
    still: float = 0.0  # seconds without a byte in the call under way
    inside: bool = False  # unisono is what its program waits in
    errand: Errand | None = None
    next: int | None = None  # call of all ranks, for one that has left


@dataclass(frozen=True)
class Verdict:
    """Why all ranks leave their calls: the first cause, the same on every rank."""

    epoch: int
    error: str
    message: str
    ranks: list[int]
    lost: list[int]  # ranks that are gone, or do not answer
    by: int = 0  # the rank that saw it
    sequence: int | None = None  # the call that failed, if those before it can still succeed
    provisional: bool = False  # made up by a rank that waits for rank 0's word

    def exception(self) -> UnisonoError:
        error = ERRORS.get(self.error, UnisonoError)(self.message)
        error.ranks, error.noticed_by, error.epoch = tuple(self.ranks), self.by, self.epoch
        return error

    @property
    def is_final(self) -> bool:
        """Somebody is lost. Otherwise all can begin again, when all have heard of it."""
        return bool(self.lost)


def packed(value: Report | Status | Verdict | Message) -> dict[str, Any]:
    return asdict(value)


def unpacked_report(body: dict[str, Any]) -> Report:
    return _made(Report, body | {"call": _call(body.get("call")), "message": unpacked_message(body.get("message"))})


def unpacked_message(body: Any) -> Message | None:
    return None if body is None else _made(Message, body)


def unpacked_status(body: dict[str, Any]) -> Status:
    errand = body.get("errand")
    calls = {"last": _call(body.get("last")), "asked": _call(body.get("asked"))}
    return _made(Status, body | calls | {"errand": None if errand is None else _made(Errand, errand)})


def unpacked_verdict(body: dict[str, Any]) -> Verdict:
    return _made(Verdict, body)


def _call(body: Any) -> CallFacts | None:
    return None if body is None else _made(CallFacts, body)


def _made(kind: type[T], body: Any) -> T:
    try:
        return kind(**body)
    except TypeError as error:
        raise Garbled(f"no {kind.__name__.lower()}: {error}") from None
