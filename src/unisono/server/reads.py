"""What a worker's reads were: how old, how long it waited for them and for whom."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

MOST_LINES = 20  # of a histogram


class Read(NamedTuple):
    """One read."""

    clock: int
    """The clock at which the worker read."""
    staleness: int
    """All updates of the clocks before ``clock - staleness`` are in it."""
    waited: float
    """Seconds for which servers let it wait for other workers."""
    awaited: int | None
    """The worker that was awaited last."""
    missing: int
    """Updates of other workers' earlier clocks that are not in it; counted where ``info=True``."""
    extra: int
    """Updates of other workers' later clocks that are."""
    cached: bool
    """Was it served here, without asking a server?"""


class Reads:
    """All reads of a table by this worker."""

    def __init__(self, worker: int, bound: int | None) -> None:
        self.worker = worker
        self.bound = bound
        self.staleness: Counter[int] = Counter()
        self.waited: Counter[int] = Counter()  # nanoseconds, by whom was awaited
        self.cached = 0
        self.missing_and_extra = 0  # the most of one read

    def note(self, read: tuple[int, int, int, int, int, int, int]) -> None:
        staleness, waited, awaited, missing, extra, cached, parts = read
        self.staleness[staleness] = self.staleness.get(staleness, 0) + 1
        if awaited not in (-1, self.worker):  # itself: a shard had not heard of its own commit yet
            self.waited[awaited] += waited
        if cached == parts and parts:
            self.cached += 1
        if missing or extra:
            self.missing_and_extra = max(self.missing_and_extra, missing + extra)

    def describe(self, clock: int, read: tuple[int, int, int, int, int, int, int]) -> Read:
        staleness, waited, awaited, missing, extra, cached, parts = read
        if awaited in (-1, self.worker):
            return Read(clock, staleness, 0.0, None, missing, extra, cached == parts > 0)
        return Read(clock, staleness, waited * 1e-9, awaited, missing, extra, cached == parts > 0)

    @property
    def count(self) -> int:
        return self.staleness.total()

    @property
    def worst(self) -> int:
        return max(self.staleness, default=0)

    def summary(self, table: str, consistency: str) -> str:
        """``max observed 2 ≤ 3 over 400 reads``, with the histogram and whom the worker waited for."""
        whose = f"table '{table}', {consistency}, worker {self.worker}"
        if self.bound is None:
            lines = [f"{whose}: max observed {self.worst}, without a bound, over {self.count} reads"]
        else:
            served = f"{self.cached} of them served here"
            lines = [f"{whose}: max observed {self.worst} ≤ {self.bound} over {self.count} reads, {served}"]
        lines += self._histogram()
        for other, time in self.waited.most_common():
            lines.append(f"  waited {time * 1e-9:.3f} s for worker {other}")
        return "\n".join(lines)

    def _histogram(self) -> list[str]:
        width = self.worst // MOST_LINES + 1  # of a line, in clocks
        counts: Counter[int] = Counter()
        for staleness, count in self.staleness.items():
            counts[staleness // width] += count
        lines = []
        for number, count in sorted(counts.items()):
            first = number * width
            age = f"{first}" if width == 1 else f"{first}-{first + width - 1}"
            lines.append(f"  {age:>3} clocks old {count:>9} reads {'█' * round(40 * count / self.count)}")
        return lines
