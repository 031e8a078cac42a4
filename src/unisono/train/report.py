"""What the last steps were spent on, who came last, and what would have to become faster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from .layout import Bucket
from .times import Step, Times

MATTERS = 0.1
"""Of a step: what takes less does not limit it."""

OFTEN = 0.75
"""Of the steps: who comes last so often is a straggler, if it also matters; of two ranks, each is in half of them."""

MOSTLY = 0.5
"""Of what is exposed: if all calls of a step took less without the waits for late ranks, the ranks waited."""


@dataclass(frozen=True)
class Straggler:
    """The rank that came last most often, and the seconds that the others waited for it when it did, on average."""

    rank: int
    often: float
    waited_for: float


@dataclass(frozen=True)
class Report:
    """Medians over the last steps, in seconds, of this rank; those of ranks are of all of them."""

    rank: int
    ranks: int
    steps: int
    buckets: int
    nbytes: int
    compute: float
    communication: float
    exposed: float
    transfer: float | None
    """Communication without the waits for ranks that came later, if that is known."""
    held_up: float
    """In which a rank waited for another one, the mean of all ranks: who comes late by turns, waits in some steps."""
    rank_compute: tuple[float, ...]
    rank_held_up: tuple[float, ...]
    straggler: Straggler | None

    @classmethod
    def of(cls, times: Times, rank: int, ranks: int, buckets: Sequence[Bucket]) -> Report:
        steps = list(times.steps)[1:] or list(times.steps)  # the first one makes what the others use again
        known = [step.ranks for step in steps if step.ranks is not None]
        compute, held_up = (
            tuple(np.median([getattr(each, name) for each in known], axis=0).tolist()) if known else ()
            for name in ("compute", "held_up")
        )
        return cls(
            rank=rank,
            ranks=ranks,
            steps=len(steps),
            buckets=len(buckets),
            nbytes=sum(bucket.nbytes for bucket in buckets),
            compute=_median(steps, "compute"),
            communication=_median(steps, "communication"),
            exposed=_median(steps, "exposed"),
            transfer=float(np.median([each.communication for each in known])) if known else None,
            held_up=float(np.median([each.held_up.mean() for each in known])) if known else 0.0,
            rank_compute=compute,
            rank_held_up=held_up,
            straggler=_straggler(steps) if ranks > 1 else None,
        )

    @property
    def total(self) -> float:
        """Of a step, without what comes between wait() and the next begin()."""
        return self.compute + self.exposed

    @property
    def overlap(self) -> float:
        """The part of communication that went on during backward."""
        return max(0.0, 1 - self.exposed / self.communication) if self.communication > 0 else 1.0

    @property
    def limit(self) -> str:
        """``straggler``, ``waiting`` (for ranks that come late by turns), ``communication`` or ``compute``."""
        late = self.straggler
        if late is not None and late.often > OFTEN and late.waited_for > MATTERS * self.total:
            return "straggler"
        idle = max(self.exposed, self.held_up)
        if idle <= MATTERS * self.total:
            return "compute"
        return "waiting" if self.transfer is not None and self.transfer < MOSTLY * idle else "communication"

    def __str__(self) -> str:
        if not self.steps:
            return "no step is over yet"
        without = "" if self.transfer is None else f", {_ms(self.transfer)} of them without waiting for late ranks"
        volume = f"{self.nbytes / 1e6:.1f} MB in {self.buckets} buckets"
        return "\n".join([
            f"{self.steps} steps of rank {self.rank} of {self.ranks}: {_ms(self.total)} each (medians)",
            f"  compute        {_ms(self.compute)}",
            f"  communication  {_ms(self.communication)}{without}: {volume}",
            f"  exposed        {_ms(self.exposed)}; {self.overlap:.0%} of communication went on during backward",
            *self._of_ranks(),
            f"  limited by     {self._advice()}",
        ])  # fmt: skip

    def _of_ranks(self) -> Iterator[str]:
        for rank, (compute, waited) in enumerate(zip(self.rank_compute, self.rank_held_up, strict=True)):
            yield f"  rank {rank:<9} computes {_ms(compute)}, waits {_ms(waited)} for others"
        if late := self.straggler:
            often = f"in {late.often:.0%} of the steps"
            yield f"  last to come   rank {late.rank}, {often}; the others wait {_ms(late.waited_for)} for it"

    def _advice(self) -> str:
        if self.limit == "straggler" and self.straggler is not None:
            return f"rank {self.straggler.rank}, which comes last: give it fewer samples, as shares(total) proposes"
        if self.limit == "waiting":
            return "ranks that come late by turns: busy cores, or batches that differ"
        if self.limit == "communication":
            return "communication: accumulate over several batches (no_sync), send less (wire=), or larger batches"
        return "compute"


def _median(steps: Sequence[Step], name: str) -> float:
    return float(np.median([getattr(step, name) for step in steps])) if steps else 0.0


def _straggler(steps: Sequence[Step]) -> Straggler | None:
    known = [step.ranks for step in steps if step.ranks is not None]
    if not known:
        return None
    rank, times = Counter(each.last for each in known).most_common(1)[0]
    waits = [np.delete(each.held_up, rank).mean() - each.held_up[rank] for each in known if each.last == rank]
    return Straggler(rank, times / len(known), float(max(0.0, np.median(waits))))


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.1f} ms" if seconds < 10 else f"{seconds:.1f} s"
