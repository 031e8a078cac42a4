"""A run: in each round every contestant has its turn, and the order changes from round to round."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from .arena import Arena
from .cells import Cell
from .contestants import Contestant
from .results import Failure, Measurement, Results

MOST_FAILURES = 2  # in succession, on so many ranks: then there is no use in waiting for it again
T = TypeVar("T")


@dataclass(frozen=True)
class Turn:
    """One contestant on so many ranks in one round."""

    round: int
    ranks: int
    contestant: Contestant


def rotated(things: Sequence[T], places: int) -> list[T]:
    """Whoever runs after a certain other, or first, should not always do so."""
    places %= max(len(things), 1)
    return [*things[places:], *things[:places]]


def run_rounds(
    contestants: Sequence[Contestant],
    cells: Sequence[Cell],
    results: Results,
    *,
    deadline: float,
    tell: Callable[[Turn], None] = lambda turn: None,
) -> None:
    """Measure all cells and add to the results; Ctrl-C ends that, and what was found stays."""
    failed: Counter[tuple[str, int]] = Counter()
    with Arena() as arena:
        try:
            for turn in turns(contestants, sorted({cell.ranks for cell in cells}), results.rounds):
                place = turn.contestant.name, turn.ranks
                if failed[place] >= MOST_FAILURES:
                    continue
                tell(turn)
                here = [cell for cell in cells if cell.ranks == turn.ranks]
                failure = take_turn(arena, turn, here, results, deadline)
                failed[place] = failed[place] + 1 if failure else 0
                if failure:
                    results.failures.append(replace(failure, given_up=failed[place] == MOST_FAILURES))
        except KeyboardInterrupt:
            results.interrupted = True


def turns(contestants: Sequence[Contestant], ranks: Sequence[int], rounds: int) -> Iterator[Turn]:
    """All of a run. Those that are compared follow each other."""
    for number in range(rounds):
        for count in ranks:
            for contestant in rotated(contestants, number):
                yield Turn(number, count, contestant)


def take_turn(arena: Arena, turn: Turn, cells: Sequence[Cell], results: Results, deadline: float) -> Failure | None:
    """One that fails is left out of the round with all cells, as those before the failure prove little."""
    out = arena.directory / "measurements"
    names = ",".join(f"{cell.collective}:{cell.variant}:{cell.nbytes}" for cell in cells)
    task = ("--cells", names, "--budget", str(results.budget), "--out", str(out))
    what, lines = arena.run(turn.contestant.starts(turn.ranks, task, arena.directory), deadline)
    found = [] if what else _read(out, turn)
    if not what and [one.cell for one in found] != list(cells):
        what = f"ended with {len(found)} of {len(cells)} results"
    if what:
        name = turn.contestant.name
        return Failure(round=turn.round, contestant=name, ranks=turn.ranks, what=what, lines=lines)
    results.measurements += found
    return None


def _read(path: Path, turn: Turn) -> list[Measurement]:
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [Measurement(round=turn.round, contestant=turn.contestant.name, **json.loads(line)) for line in lines]
