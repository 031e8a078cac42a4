"""A step from its begin to its end: buckets are started as they become full."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import nan
from time import monotonic

import numpy as np

from ..errors import UnisonoError
from .briefing import Brief, Briefing
from .lanes import Lane
from .line import Line
from .storage import scale
from .times import Step, Times, union


@dataclass
class UnderWay:
    """One step. Buckets of a lane are started in their order; the last one, which has the flags, after all others."""

    line: Line
    samples: float | None
    times: Times
    fingerprint: float  # of what all ranks have to have in common
    differ: Callable[[], None]  # called where they do not, on all ranks
    unused: list[str] | None = None  # on this rank, when backward is over
    began: float = field(default_factory=monotonic)
    flushed: float = nan

    def __post_init__(self) -> None:
        for lane in self.line.lanes:
            lane.begin(self.line.buckets_of(lane))
        buckets = len(self.line.storage.buckets)
        self._briefing = Briefing(self.line.lanes[0].comm, self.samples, self.fingerprint, self.times.facts(buckets))
        self.line.lanes[0].count()
        self._factor: float | None = None
        self.line.storage.flags[:] = 1

    def start_full(self) -> None:
        """Reduce what is full and has its turn, if all ranks have begun the step: before, it could not go on anyway."""
        if self._factor is None and self._briefing.is_through():
            self._weigh()
        if self._factor is None:
            return
        left, last = self.line.places.left, len(self.line.places.left) - 1
        for lane in self.line.lanes:
            while lane.waiting and not left[lane.waiting[0]] and not (lane.waiting[0] == last and any(left)):
                self._start(lane, self._factor)

    def _start(self, lane: Lane, factor: float) -> None:
        bucket, storage = lane.waiting[0], self.line.storage
        if factor != 1.0:
            scale(storage.gradients(bucket), factor)
        lane.start(storage.arrays[bucket], self.line.variables[bucket], f"average of {storage.buckets[bucket]}")

    def _weigh(self) -> Brief:
        with self._noted("when the ranks told each other how many samples they have"):
            brief = self._briefing.wait()
            if len(set(brief.fingerprints)) > 1:
                self.differ()
        self._factor = brief.weights[self.line.lanes[0].comm.rank]
        return brief

    def flush(self) -> None:
        """Backward is over: what has not come will not come."""
        if self.unused is not None:
            return
        self.flushed = monotonic()
        self.unused, to_empty = self.line.places.finish()
        for name in to_empty:
            self.line.storage.places[name][...] = 0
        if self.samples == 0:
            self.unused = []  # who has no sample has no say in what is used
        for name in self.unused:
            self.line.storage.flags[self.line.storage.numbers[name]] = 0
        if self._factor is None:
            self._weigh()
        self.start_full()

    def wait_for(self, buckets: Iterable[int]) -> None:
        """Until these are averaged. If one cannot be yet, backward has to be over."""
        for bucket in buckets:
            lane = self.line.lane_of[bucket]
            if not lane.has_started(bucket) and not self.line.places.left[bucket]:
                self._weigh()
                self.start_full()
            if not lane.has_started(bucket):
                self.flush()
            with self._noted(f"when the gradients of {self.line.storage.buckets[bucket]} were averaged"):
                self.line.lane_of[bucket].wait(bucket)

    @contextmanager
    def _noted(self, what: str) -> Iterator[None]:
        try:
            yield
        except UnisonoError as error:
            error.add_note(f"in step {self.times.done}, {what}")
            raise

    def finish(self) -> Step:
        """Wait for all, and say how it went."""
        self.flush()
        self.times.learn(self._weigh().before)
        self.wait_for(range(len(self.line.lane_of)))
        ended = monotonic()
        spans = {bucket: span for lane in self.line.lanes for bucket, span in lane.spans().items()}
        seconds = [spans[b][1] - spans[b][0] if b in spans else nan for b in range(len(self.line.lane_of))]
        step = Step(
            self.times.done,
            samples=nan if self.samples is None else self.samples,
            compute=self.flushed - self.began,
            communication=union(spans.values()),
            exposed=ended - self.flushed,
            calls=np.array(seconds),
        )
        self.times.add(step)
        return step
