"""``comm.explain()``: which algorithms there are for a call, what each was predicted to take, and what it takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..errors import ConfigError
from ..schedule.catalog import collective_named
from .stopwatch import Cell, time_in_turns

if TYPE_CHECKING:
    from .communicator import Communicator

ROUNDS, SECONDS = 6, 0.02


class Candidate(NamedTuple):
    """An algorithm as it is written; seconds, and how much longer than the best it takes."""

    algorithm: str
    predicted: float
    chosen: bool
    measured: float | None = None
    regret: float | None = None


@dataclass(frozen=True)
class Comparison:
    """The candidates for a call, the chosen one first, then by predicted time; prints as a table."""

    collective: str
    nbytes: int
    ranks: int
    joined_by: str
    prices: str
    candidates: list[Candidate]

    @property
    def chosen(self) -> Candidate:
        """What a call takes that names no algorithm."""
        return self.candidates[0]

    def facts(self) -> dict[str, Any]:
        """As JSON has it."""
        facts = {name: getattr(self, name) for name in ("collective", "nbytes", "ranks", "joined_by", "prices")}
        return facts | {"candidates": [candidate._asdict() for candidate in self.candidates]}

    def __str__(self) -> str:
        width = max(len(candidate.algorithm) for candidate in self.candidates) + 2
        head = f"{self.collective} of {self.nbytes:,} bytes among {self.ranks} ranks, joined by {self.joined_by}"
        titles = f"  {'':{width}}{'predicted':>12}" + f"{'measured':>12}{'regret':>9}" * (
            self.chosen.measured is not None
        )
        lines = [head, f"prices: {self.prices}", titles]
        for one in self.candidates:
            line = f"{'*' if one.chosen else ' '} {one.algorithm:{width}}{_time(one.predicted):>12}"
            if one.measured is not None and one.regret is not None:
                line += f"{_time(one.measured):>12}{one.regret:>8.0%} "
            lines.append(line.rstrip())
        return "\n".join(lines)


def compare(comm: Communicator, collective: str, nbytes: int, *, measured: bool) -> Comparison:
    """Measured: every rank calls this, and all candidates run."""
    collective_named(collective)  # names the nearest
    if isinstance(nbytes, bool) or not isinstance(nbytes, int | np.integer) or nbytes < 0:
        raise ConfigError(f"explain() of {nbytes!r} bytes: write how many, from 0 up")
    selector, p = comm._runner.selector, comm.size
    nbytes = int(nbytes)
    chosen = selector.choose(collective, p, nbytes)
    found = selector.predictions(collective, p, nbytes, chosen)
    candidates = [Candidate(text, seconds, text == chosen) for text, seconds in found]
    if measured:
        candidates = _measured(comm, collective, nbytes, candidates)
    return Comparison(collective, nbytes, p, selector.joined_by, selector.model.origin, candidates)


def _measured(comm: Communicator, collective: str, nbytes: int, candidates: list[Candidate]) -> list[Candidate]:
    cells = [Cell(collective, one.algorithm, nbytes) for one in candidates]
    times = np.median(time_in_turns(comm, cells, rounds=ROUNDS, seconds=SECONDS), axis=0)
    best = float(times.min())
    pairs = zip(candidates, times.tolist(), strict=True)
    return [one._replace(measured=taken, regret=taken / best - 1) for one, taken in pairs]


def _time(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"
