"""What to raise for a failure: what all ranks raise. And how the ranks begin again, when all have raised it."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic, monotonic_ns
from typing import TYPE_CHECKING

from ..errors import DeadlineExceeded, MismatchError, PeerLost, UnisonoError
from .flight import Flight
from .in_flight import go_no_further_at_exit
from .incident import Errand, Message, Report
from .lookout import Lookout
from .status import Whereabouts, facts_of

if TYPE_CHECKING:
    from .._native import Executor


class Explanation:
    """Of the failures of one communicator's calls. Without a lookout, a rank raises what it sees itself.

    All calls that were made before the program has seen a failure fail of it, also those that were started; the next
    one after that begins again. So all ranks agree on which call is the first one of the new epoch.
    """

    def __init__(self, executor: Executor, flight: Flight, rank: int, lookout: Lookout | None) -> None:
        self._executor: Executor | None = executor
        self._rank = rank
        self._whereabouts = Whereabouts(flight)
        self._lookout = lookout
        self._own: UnisonoError | None = None  # that the others need not be told
        if lookout:
            lookout.start(self._whereabouts, executor)

    def forget_executor(self) -> None:
        """Its links end with the last one who knows it."""
        self._executor = None

    @property
    def epoch(self) -> int:
        return self._lookout.epoch if self._lookout else 0

    @property
    def news(self) -> UnisonoError | None:
        """What a call raises at once: a failure that the program has not seen yet, or that none recovers from.

        A call that comes before the one that failed is made: others may be in it.
        """
        verdict = self._lookout.verdict if self._lookout else None
        if not self._lookout or not verdict or self._lookout.may_begin_again or self._executor is None:
            return None
        is_earlier = verdict.sequence is not None and self._executor.position()[0] < verdict.sequence
        return None if is_earlier else verdict.exception()

    @property
    def has_to_begin_again(self) -> bool:
        return self._lookout is not None and self._lookout.may_begin_again

    @property
    def has_failed(self) -> bool:
        return self._lookout is not None and self._lookout.verdict is not None

    @property
    def lost(self) -> frozenset[int]:
        """The ranks that the others go on without."""
        return self._lookout.lost if self._lookout else frozenset()

    def seen(self) -> None:
        """The program has caught what is the matter."""
        if self._lookout:
            self._lookout.seen()

    def say_of_errands(self, errand: Callable[[], Errand | None]) -> None:
        self._whereabouts.errand = errand

    def tell_of_errand(self) -> None:
        if self._lookout:
            self._lookout.tell_of_errand()

    def of(self, error: BaseException, call: str, epoch: int) -> BaseException:
        """What to raise where a call of that epoch ended with this error."""
        go_no_further_at_exit()
        lookout = self._lookout
        if lookout is None or error is self._own or (isinstance(error, UnisonoError) and error.epoch is not None):
            return error
        if isinstance(error, (DeadlineExceeded, MismatchError, PeerLost)):
            verdict = lookout.verdict_of(epoch) or lookout.settle(self._report(error, epoch))
            return verdict.exception() if verdict else error
        if not isinstance(error, Exception):
            lookout.tell(Report(epoch, self._rank, "Interrupted", reason=call))
        return error

    def begin_again(self, until: float) -> None:
        """After a failure that all ranks have raised: nothing of it remains. Every rank has to come here."""
        lookout = self._lookout
        assert lookout, "nobody else tells of failures"
        assert self._executor, "it is not closed"
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
        record = self._whereabouts.failed() if error.sequence is None else self._whereabouts.call(error.sequence)
        return Report(
            epoch=epoch,
            by=self._rank,
            error=type(error).__name__,
            ranks=list(error.ranks),
            reason=error.reason or str(error),
            second_hand=error.second_hand,
            call=facts_of(record) if record else None,
            round=error.round,
            waited=(monotonic_ns() - record.began) / 1e9 if record else 0.0,
            message=None if error.message is None else Message(error.ranks[0], self._rank, error.message),
        )
