"""What to raise for a failure: what all ranks raise. And how the ranks begin again, when all have raised it."""

from __future__ import annotations

from time import monotonic, monotonic_ns
from typing import TYPE_CHECKING

from ..errors import DeadlineExceeded, MismatchError, PeerLost, UnisonoError
from .flight import Flight
from .incident import Report
from .lookout import Lookout
from .status import Whereabouts, facts_of

if TYPE_CHECKING:
    from .._native import Executor


class Explanation:
    """Of the failures of one communicator's calls. Without a lookout, a rank raises what it sees itself."""

    def __init__(self, executor: Executor, flight: Flight, rank: int, lookout: Lookout | None) -> None:
        self._executor, self._rank = executor, rank
        self._whereabouts = Whereabouts(flight)
        self._lookout = lookout
        self._own: UnisonoError | None = None  # that the others need not be told
        if lookout:
            lookout.start(self._whereabouts)

    @property
    def has_to_begin_again(self) -> bool:
        """Is there a failure, which everybody can recover from?"""
        return self._lookout is not None and self._lookout.verdict is not None

    def raise_news(self) -> None:
        """Before a call: a failure that this rank has not raised yet, or that nobody can recover from."""
        verdict = self._lookout.verdict if self._lookout else None
        if self._lookout and verdict and (self._lookout.raising() or verdict.is_final):
            raise verdict.exception()

    def of(self, error: BaseException, call: str) -> BaseException:
        """What to raise where a call ended with this error."""
        lookout = self._lookout
        if lookout is None or error is self._own:
            return error
        if isinstance(error, (DeadlineExceeded, MismatchError, PeerLost)):
            verdict = lookout.verdict or lookout.settle(self._report(error, lookout.epoch))
            if verdict is None:
                return error
            lookout.raising()
            return verdict.exception()
        if not isinstance(error, Exception):
            lookout.tell(Report(lookout.epoch, self._rank, "Interrupted", reason=call))
        return error

    def begin_again(self, until: float) -> None:
        """After a failure that all ranks have raised: nothing of it remains. Every rank has to come here."""
        lookout = self._lookout
        assert lookout, "nobody else tells of failures"
        epoch = lookout.epoch
        sequence, sent = self._executor.position()
        try:
            rows = lookout.exchange("left", [sequence, sent], epoch=epoch, seconds=until - monotonic())
            sent_to_this = [row[1][self._rank] for row in rows]
            self._executor.begin_again(sent_to_this, max(row[0] for row in rows) + 1, max(until - monotonic(), 0.001))
            lookout.exchange("clean", None, epoch=epoch, seconds=until - monotonic())
        except UnisonoError as error:
            self._own = error
            raise

    def _report(self, error: DeadlineExceeded | MismatchError | PeerLost, epoch: int) -> Report:
        record = self._whereabouts.failed()
        return Report(
            epoch=epoch,
            by=self._rank,
            error=type(error).__name__,
            ranks=list(error.ranks),
            reason=error.reason or str(error),
            second_hand=error.second_hand,
            call=facts_of(record) if record else None,
            waited=(monotonic_ns() - record.began) / 1e9 if record else 0.0,
        )
