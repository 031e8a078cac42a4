"""Edit schedules at random, let the executor judge each edit, and compare what verify says."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache
from random import Random

from tests.interpret.executor import harm
from tests.interpret.mutation import EDITS, mutated

from unisono.interpret.verify import verify
from unisono.schedule.catalog import algorithms, find
from unisono.schedule.schedule import Table

FEW_RUNS, MANY_RUNS = 3, 60
MOST_EDITS = 6


@dataclass
class Tally:
    """How often verify and the executor agreed, by the kind of the edit, and the edits where they did not."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    disagreements: list[str] = field(default_factory=list)

    def total(self, verdict: str) -> int:
        return sum(count for (_, v), count in self.counts.items() if v == verdict)

    @property
    def harmful(self) -> int:
        return self.total("caught") + self.total("missed")

    @property
    def harmless(self) -> int:
        return self.total("accepted") + self.total("rejected")

    @property
    def caught(self) -> float:
        """The share of the harmful edits that verify rejects."""
        return self.total("caught") / self.harmful

    @property
    def accepted(self) -> float:
        """The share of the harmless edits that verify accepts."""
        return self.total("accepted") / self.harmless

    def __str__(self) -> str:
        verdicts = ("caught", "missed", "accepted", "rejected")
        lines = [
            f"{'':24}{'harmful':>10}{'':10}{'harmless':>10}",
            f"{'edit':24}" + "".join(f"{v:>10}" for v in verdicts),
        ]
        for edit in [edit.__name__ for edit in EDITS]:
            lines.append(f"{edit:24}" + "".join(f"{self.counts[edit, v]:10}" for v in verdicts))
        lines.append(f"{'all':24}" + "".join(f"{self.total(v):10}" for v in verdicts))
        lines.append(f"harmful edits caught: {self.caught:.2%}, harmless edits accepted: {self.accepted:.2%}")
        return "\n".join(lines + self.disagreements)


def trial(edits: int, seed: int) -> Tally:
    """So many edits of random algorithms of the catalogue, on a random number of ranks with a random root.

    What is still right after an edit is edited again, so that odd but right schedules are met, too.
    """
    rng, tally = Random(seed), Tally()
    table, history = random_table(rng), ()
    while sum(tally.counts.values()) < edits:
        edit, edit_seed = rng.choice(EDITS), rng.getrandbits(40)
        if (edited := mutated(table, edit, Random(edit_seed))) is None:
            continue
        history = (*history, (edit.__name__, edit_seed))
        verdict = judge(edited, edit_seed)
        tally.counts[edit.__name__, verdict] += 1
        if verdict in ("missed", "rejected"):
            tally.disagreements.append(_describe(edited, history, verdict))
        is_worth_another = verdict == "accepted" and len(history) < MOST_EDITS
        table, history = (edited, history) if is_worth_another else (random_table(rng), ())
    return tally


def judge(table: Table, seed: int) -> str:
    """Is the schedule harmful, and does verify say so? Where they disagree, the executor looks again, longer."""
    right = verify(table).right
    if harm(table, seed, FEW_RUNS):
        return "missed" if right else "caught"
    if not right and harm(table, seed, MANY_RUNS):
        return "caught"
    return "accepted" if right else "rejected"


def random_table(rng: Random) -> Table:
    """A schedule of the catalogue, mostly for few ranks."""
    algorithm = rng.choice(algorithms())
    p = rng.randint(2, 9) if rng.random() < 0.95 else rng.randint(10, 17)
    root = rng.randrange(p) if "root" in algorithm.pattern.parameters else 0
    segments = rng.randint(1, 3) if "segments" in algorithm.pattern.parameters else None
    return _table(algorithm.collective.name, algorithm.name, p, root, segments)


@lru_cache(1024)
def _table(collective: str, name: str, p: int, root: int, segments: int | None) -> Table:
    return find(collective, name).schedule(p, root, **({"segments": segments} if segments else {})).table


def _describe(table: Table, history: tuple[tuple[str, int], ...], verdict: str) -> str:
    what = harm(table, history[-1][1], MANY_RUNS) or (verify(table).problems or ("right",))[0]
    name = f"{table.collective.name} '{table.name}' on {table.p} ranks, root {table.root}, {table.blocks} blocks"
    return f"{verdict}: {name}: {' then '.join(f'{edit} ({seed})' for edit, seed in history)}: {what}"
