"""How steps went: what each rank computed, how long calls took, and who came last to them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import nan

import numpy as np
from numpy.typing import NDArray

from .lanes import Span

KEPT = 256
"""Steps."""


@dataclass
class Step:
    """One step of this rank, in seconds; ``arrivals`` and those below are known when the next step has begun."""

    number: int
    samples: float = nan
    compute: float = nan
    """From the begin of the step to the end of backward."""
    communication: float = nan
    """In which a call was under way, or waited for a rank."""
    exposed: float = nan
    """From the end of backward until all gradients were averaged."""
    calls: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    """The seconds of each bucket's call."""
    ranks: Ranks | None = None

    @property
    def last(self) -> int | None:
        """The rank that came last to the calls, if that is known yet."""
        return self.ranks.last if self.ranks is not None else None

    @property
    def total(self) -> float:
        return self.compute + self.exposed

    def facts(self) -> NDArray[np.float64]:
        """For the other ranks."""
        return np.array([self.samples, self.compute, self.exposed, *self.calls])


@dataclass(frozen=True)
class Ranks:
    """One step of all ranks.

    All leave a call at about the same time, whenever they came; so the one whose call was shortest came last, and the
    others waited for it by how much longer theirs were. No two clocks are compared for that.
    """

    samples: NDArray[np.float64]
    compute: NDArray[np.float64]
    exposed: NDArray[np.float64]
    calls: NDArray[np.float64]  # a row for each rank, a column for each bucket

    @classmethod
    def of(cls, rows: NDArray[np.float64]) -> Ranks:
        """From the facts of each rank."""
        return cls(rows[:, 0], rows[:, 1], rows[:, 2], rows[:, 3:])

    @property
    def last(self) -> int:
        """The rank that was in calls for the shortest time before the last one came."""
        return int((self.calls - self.calls.min(axis=0)).sum(axis=1).argmin())

    @property
    def held_up(self) -> NDArray[np.float64]:
        """Seconds that each rank had nothing to compute because another one did."""
        return np.asarray(self.exposed - self.exposed.min())

    @property
    def communication(self) -> float:
        """Seconds of the calls without the waits for ranks that came later."""
        return float(self.calls.min(axis=0).sum())


class Times:
    """The last steps."""

    def __init__(self) -> None:
        self.steps: deque[Step] = deque(maxlen=KEPT)
        self.done = 0

    def add(self, step: Step) -> None:
        self.steps.append(step)
        self.done += 1

    def learn(self, rows: NDArray[np.float64]) -> None:
        """What all ranks say of the last step."""
        if self.steps and self.steps[-1].ranks is None and not np.isnan(rows[:, 1:]).any():
            self.steps[-1].ranks = Ranks.of(rows.copy())

    def speeds(self) -> list[float]:
        """Samples per second of each rank, the median of the last steps; none if that is not known of all."""
        known = [step.ranks.samples / step.ranks.compute for step in self.steps if step.ranks is not None]
        speeds = [float(np.median(each[each > 0])) if (each > 0).any() else 0.0 for each in np.array(known).T]
        return speeds if speeds and min(speeds) > 0 else []

    def facts(self, buckets: int) -> NDArray[np.float64]:
        """Of the last step, for the others; of as many numbers on all ranks."""
        known = self.steps[-1].facts() if self.steps else np.empty(0)
        return known if len(known) == buckets + 3 else np.full(buckets + 3, nan)


def union(spans: Iterable[Span]) -> float:
    """Seconds in which at least one of these went on."""
    total, reached = 0.0, 0.0
    for began, ended in sorted(spans):
        total += max(0.0, ended - max(began, reached))
        reached = max(reached, ended)
    return total
