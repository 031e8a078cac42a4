"""Calls on buckets, started in one order on all ranks."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from ..comm.handle import Handle
from ..engine.calls import end_with
from ..errors import MismatchError, UnisonoError

if TYPE_CHECKING:
    from .._native import Variable
    from ..comm.communicator import Communicator
    from ..engine.engine import Engine

Span = tuple[float, float]
"""When a call began and ended here, in seconds of the monotonic clock."""


class Lane:
    """A communicator of its own, so that no call of the program comes between; its calls run one after the other.

    Whoever fills a bucket starts its call, on that thread: to have an engine's thread do it takes three more changes
    of threads (docs/decisions/0020).
    """

    def __init__(self, comm: Communicator, engine: Engine | None, *, reproducible: bool) -> None:
        self.comm, self._engine = comm, engine
        self._options = {"op": "avg", "reproducible": reproducible}
        self.waiting: list[int] = []  # buckets that are not started, in their order
        self._handles: dict[int, Handle] = {}
        self._numbers: dict[int, int] = {}  # of their calls
        self._calls = 0

    def count(self) -> None:
        """Another call was started on the communicator."""
        self._calls += 1

    def begin(self, buckets: list[int]) -> None:
        """A step in which these will be started; no call is under way."""
        self.waiting = list(buckets)
        self._calls = self.comm._runner.executor.counters()[0]
        self._handles.clear()
        self._numbers.clear()

    def start(self, array: Any, variable: Variable | None, name: str) -> None:
        """Average the next bucket. An operation of the engine stands for the call."""
        bucket = self.waiting.pop(0)
        handle = self.comm.start("allreduce", array, out=array, **self._options)
        self._handles[bucket], self._numbers[bucket] = handle, self._calls
        self._calls += 1
        if self._engine is not None and variable is not None:
            self._engine.push(partial(end_with, handle), mutate=[variable], name=name, asynchronous=True)

    def wait(self, bucket: int) -> None:
        """Until a bucket that was started is averaged; raises what went wrong."""
        self._handles[bucket].wait()

    def has_started(self, bucket: int) -> bool:
        return bucket in self._handles

    def abandon(self, why: str) -> None:
        """Tell all ranks, those that wait in a call, too, that this one does not go on."""
        error = MismatchError(why)
        error.ranks = (self.comm.rank,)
        with suppress(UnisonoError):  # they know it, or of something worse
            self.comm._runner.explain(error, "allreduce", self.comm._runner.epoch)

    def spans(self) -> dict[int, Span]:
        """When the calls on buckets ran, by bucket, for those that the flight recorder has kept."""
        if not self._numbers:
            return {}
        kept = self.comm._runner.flight.spans_since(min(self._numbers.values()))
        return {bucket: kept[number] for bucket, number in self._numbers.items() if number in kept}
