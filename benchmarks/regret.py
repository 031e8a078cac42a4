"""How much longer the chosen algorithm takes than the best of all, and how good the predictions are.

python benchmarks/regret.py [--kinds shm,tcp,lab] [--ranks 2,3,4,5,8] [--rounds 6] [--limit 50] [--model FILE|--tune]
    [--json FILE]
python benchmarks/regret.py --guidelines [--kinds shm,tcp,lab] [--ranks 2,3,4,5,8] [--limit 50]

The algorithms of a size run in turns, each for 0.4 ms (3 calls at least), and what counts is the ratio of two in the
same turn: cores are near and far, and shared with others, for some milliseconds. The best one is found in every other
turn and judged in the rest, and the other way round: the best of many noisy medians is lucky. In the lab, a turn of
some kilobytes has 4 ms, and begins after calls that have emptied the token buckets, which let a millisecond of traffic
pass at any rate: else that would go to who comes first, and no wire has any.
Regret is the mean over sizes of chosen / best - 1. Beside ours are always `ring`, and the thresholds of MPICH
(recursive doubling up to 2 KB, then halving and doubling). Errors are |predicted / measured - 1|, in their median, of
all algorithms in loops of 4 ms, at sizes that no price was fitted to: once by the model that the ranks had when they
started (then), once by prices fitted in the same rounds to what `unisono tune` measures (now), which the bar is for;
the machine changes its speed for seconds at a time, which no prediction knows before. The verdict has both. So regret,
too, is shown for what is chosen by the one (ours) and by the other (now). A job has --limit seconds, of which sizes,
loops and guidelines have their parts: they are done as often as fits in, up to --rounds times, and once in any case. A
job that has not ended 60 s later is ended, and left out. Beyond 1 MB, and where a call takes 3 ms, a turn is one call
of each, two turns at least; what takes over 3 times as long as the best is left out there, and named: what is predicted
to, and has a busiest wire that carries over 3 times the bytes, is not even tried, and the rest is tried once. The lab
needs root and iproute2: a host for each rank, or --hosts of them, at 1 Gbit/s, or at another --rate; with --tune each
of these labs is measured before. --guidelines checks those alone: all of --limit is for them. The exit status is 1
where a bar is missed, a guideline is broken or a job was left out.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from regret_cells import HOPELESS, KB, MB, check_guidelines, measure
from regret_guidelines import broken_guidelines, show_guidelines
from regret_jobs import run, tune_here

SIZES = (8, KB, 16 * KB, 128 * KB, MB, 8 * MB, 64 * MB)


def thresholds(nbytes: int) -> str:
    """Of MPICH, for allreduces of commutative operators."""
    return "recursive_doubling" if nbytes <= 2 * KB else "halving_doubling"


def timed(taken: Any) -> bool:
    """In most of the rounds?"""
    return bool(np.isnan(taken).mean() < 0.5)


class Job:
    """What one job found, size by size."""

    def __init__(self, found: dict[str, Any]) -> None:
        self.kind, self.p, self.found = found["kind"], found["p"], found
        self.times = {tuple(cell): np.array(taken) for cell, taken in zip(found["cells"], found["times"], strict=True)}
        self.sizes = sorted({nbytes for _, nbytes in self.times})

    def regrets(self, choice: dict[int, str]) -> list[float]:
        return [self.regret(choice[nbytes], nbytes) for nbytes in self.sizes]

    def regret(self, name: str, nbytes: int) -> float:
        """Hopeless ones, which were mostly not timed on, took at least so many times as long."""
        rivals = {key: taken for key, taken in self.times.items() if key[1] == nbytes and timed(taken)}
        mine = rivals.get((self.found["first"][str(nbytes)].get(name, name), nbytes))
        if mine is None:
            return HOPELESS - 1
        judged = []
        for half in (0, 1):
            best = min(rivals.values(), key=lambda taken: float(np.nanmedian(taken[half::2] / mine[half::2])))
            judged.append(float(np.nanmedian(mine[1 - half :: 2] / best[1 - half :: 2])))
        return float(np.mean(judged)) - 1

    def errors(self, of: str = "fitted") -> list[float]:
        pairs = zip(self.found["steady"], self.found[of], strict=True)
        return [abs(guess / taken - 1) for taken, guess in pairs if not np.isnan(taken)]

    def ours(self, when: str = "chosen") -> list[float]:
        return self.regrets({int(nbytes): name for nbytes, name in self.found[when].items()})

    def ring(self) -> list[float]:
        return self.regrets(dict.fromkeys(self.sizes, "ring"))

    def table(self) -> list[float]:
        return self.regrets({nbytes: thresholds(nbytes) for nbytes in self.sizes})


def show(jobs: list[Job], cores: int) -> bool:
    """Are all bars met?"""
    print(f"{'':14}{'ours':>9}{'now':>9}{'ring':>9}{'MPICH':>9}{'then':>9}{'now':>9}   chosen")
    for job in jobs:
        names = " ".join(f"{nbytes}:{name.partition(':')[0]}" for nbytes, name in job.found["chosen"].items())
        means = (float(np.mean(x)) for x in (job.ours(), job.ours("chosen_now"), job.ring(), job.table()))
        errors = (float(np.median(job.errors(of))) for of in ("predicted", "fitted"))
        print(f"{job.kind:6} p = {job.p:<3}" + "".join(f"{x:>9.1%}" for x in (*means, *errors)) + f"   {names}")
        print(" " * 12 + "regret by size  " + " ".join(f"{x:.0%}" for x in job.ours()))
        for nbytes, names_left in job.found.get("left_out", {}).items():
            if names_left:
                print(f"{'':12}left out at {nbytes} B, over 3 times the best: {' '.join(names_left)}")
        for line in broken_guidelines(job.found):
            print(f"{'':12}guideline: {line}")
    groups = {
        "p <= cores": (lambda job: job.kind != "lab" and job.p <= cores, 0.05, 0.15),
        "lab": (lambda job: job.kind == "lab", 0.05, 0.15),
        "p > cores": (lambda job: job.kind != "lab" and job.p > cores, 0.15, None),
    }
    met = [not any(broken_guidelines(job.found) for job in jobs)]
    print(f"{verdict(met[0])} guidelines")
    for name, (belongs, most, most_error) in groups.items():
        some = [job for job in jobs if belongs(job)]
        if not some:
            continue
        ours, ring, table = (
            float(np.mean([x for job in some for x in f(job)])) for f in (Job.ours, Job.ring, Job.table)
        )
        error, loaded = (
            float(np.median([x for job in some for x in job.errors(of)])) for of in ("fitted", "predicted")
        )
        met.append(ours <= most and ours < min(ring, table) and (most_error is None or error <= most_error))
        limit = f"{most:.0%}" + (f", {most_error:.0%}" if most_error else "")
        origins = ", ".join(dict.fromkeys(job.found["origin"] for job in some))
        print(
            f"{verdict(met[-1])} {name}: regret {ours:.1%}, error {error:.1%} (bars {limit}); "
            f"ring {ring:.1%}, MPICH {table:.1%}; error by the prices that were loaded ({origins}) {loaded:.1%}"
        )
    return all(met)


def verdict(met: bool) -> str:
    return "ok  " if met else "MISS"


def main() -> bool:
    """Did all jobs end, and were all bars met?"""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kinds", default="shm,tcp,lab")
    parser.add_argument("--ranks", default="2,3,4,5,8")
    parser.add_argument("--sizes", type=lambda text: list(map(int, text.split(","))), default=list(SIZES))
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--limit", type=float, default=50.0, help="seconds of a job")
    parser.add_argument("--rate", default="1gbit", help="of the wires in the lab")
    parser.add_argument("--hosts", type=int, help="of the lab; without it, as many as ranks")
    parser.add_argument("--model", help="a file, or off for the default prices; without it, what the cache has")
    parser.add_argument("--tune", action="store_true", help="measure the machine first")
    parser.add_argument("--guidelines", action="store_true", help="nothing else")
    parser.add_argument("--json", type=Path, help="add what was found to this file, and show all that is in it")
    given = parser.parse_args()
    kinds = given.kinds.split(",")
    with tempfile.TemporaryDirectory() as directory:
        models = dict.fromkeys(kinds, given.model or "")
        if given.tune and {"shm", "tcp"} & set(kinds):
            models |= dict.fromkeys(("shm", "tcp"), tune_here(directory))
        lines, ended = [], True
        for kind in filter(None, kinds):
            for p in map(int, filter(None, given.ranks.split(","))):
                if (found := run(kind, p, given, models[kind])) is None:
                    ended = False
                    continue
                lines.append(found)
                if given.json:
                    with given.json.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(lines[-1]) + "\n")
    if given.json:
        lines = [json.loads(line) for line in given.json.read_text(encoding="utf-8").splitlines()]
    met = show_guidelines(lines) if given.guidelines else show([Job(line) for line in lines], os.cpu_count() or 1)
    return met and ended


if __name__ == "__main__":
    if sys.argv[1:3] == ["--measure", "guidelines"]:
        check_guidelines(int(sys.argv[3]), float(sys.argv[4]))
    elif sys.argv[1:2] == ["--measure"]:
        measure(list(map(int, sys.argv[2].split(","))), int(sys.argv[3]), float(sys.argv[4]))
    else:
        sys.exit(0 if main() else 1)
