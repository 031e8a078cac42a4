"""Where allreduce takes longer than its neighbours let one expect: over sizes, and from p to p + 1 ranks.

python benchmarks/cliffs.py [--ranks 1,2,…,8] [--rounds 3] [--arrays ordinary|empty] [--links auto] [--json FILE]

A larger vector should not be faster by more than noise, and one rank more should not double the time of 64 KiB or more.
From as many ranks as cores to one more, processes begin to share cores: that step is shown, not judged. At 1 rank
nothing moves, so nothing is compared with it. Two cells are compared by the median of their ratios, round by round.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from statistics import median

from unisono.bench.cells import plan_cells
from unisono.bench.contestants import Unisono
from unisono.bench.ratios import summary
from unisono.bench.results import Results
from unisono.bench.rounds import run_rounds
from unisono.bench.wording import name_size, name_time

NOISE = 1.25
STEEPEST = 2.0
FROM = 64 << 10
SIZES = [round(2 ** (half / 2)) // 4 * 4 for half in range(20, 53)]  # 1 KiB to 64 MiB, 2 in each octave
NAMES = {"ordinary": "unisono", "empty": "unisono empty()"}
Times = dict[int, dict[int, list[float]]]  # ranks: bytes: microseconds, in each round


def measure(given: argparse.Namespace) -> Times:
    name = NAMES[given.arrays]
    results = Results(links=given.links, rounds=given.rounds, budget=given.budget, ours=[name])
    cells = plan_cells(["allreduce"], None, sorted(map(int, given.ranks.split(","))), SIZES)
    run_rounds([Unisono(name, given.links)], cells, results, deadline=120.0)
    if given.json:
        given.json.write_text(results.to_json(summary(results)))
    for failure in results.failures:
        print(f"{failure.ranks} ranks: {failure.what}", *failure.lines, sep="\n    ")
    if results.failures or results.interrupted:
        sys.exit("this is incomplete")
    times: Times = {}
    for one in results.measurements:
        times.setdefault(one.ranks, {}).setdefault(one.bytes, []).append(one.median_us)
    return times


def show(times: Times) -> None:
    print("       size" + "".join(f"{f'p = {p}':>10}" for p in times))
    for nbytes in SIZES:
        print(f"{name_size(nbytes):>11}" + "".join(f"{name_time(median(times[p][nbytes])):>10}" for p in times))


def ratio(some: list[float], others: list[float]) -> float:
    return median([one / other for one, other in zip(some, others, strict=True)])


def dips(times: dict[int, list[float]]) -> list[tuple[int, int, float]]:
    """Sizes that take longer than a larger one, with the fastest of these and how much longer."""
    sizes = sorted(times)
    found = []
    for number, small in enumerate(sizes[:-1]):
        longer = {large: ratio(times[small], times[large]) for large in sizes[number + 1 :]}
        large = max(longer, key=longer.__getitem__)
        if longer[large] > NOISE:
            found.append((small, large, longer[large]))
    return found


def steps(times: Times) -> list[tuple[int, int, float]]:
    """From how many ranks to one more, at which size, a call takes more than twice as long."""
    pairs = [(p, nbytes) for p in times if p > 1 and p + 1 in times for nbytes in times[p] if nbytes >= FROM]
    found = [(p, nbytes, ratio(times[p + 1][nbytes], times[p][nbytes])) for p, nbytes in pairs]
    return [step for step in found if step[-1] > STEEPEST]


def judge(times: Times, cores: int) -> int:
    """Print what is not as it should be, and count it."""
    cliffs = 0
    for p in times:
        for small, large, longer in dips(times[p]):
            cliffs += 1
            print(f"not monotone: p = {p}, {name_size(small)} takes {longer:.2f} times as long as {name_size(large)}")
    found = steps(times)
    for p, nbytes, longer in found:
        if p != cores:
            cliffs += 1
            print(f"a cliff: from p = {p} to {p + 1}, {name_size(nbytes)} takes {longer:.2f} times as long")
    if expected := [longer for p, _, longer in found if p == cores]:
        steepest = f"up to {max(expected):.2f} times as long, at {len(expected)} sizes more than {STEEPEST:g} times"
        print(f"as many ranks as cores, then one more: p = {cores + 1} takes {steepest}")
    print(f"{cliffs} cliff{'s' * (cliffs != 1)}")
    return cliffs


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--ranks", default="1,2,3,4,5,6,7,8")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--budget", type=float, default=0.03)
    parser.add_argument("--arrays", choices=NAMES, default="ordinary")
    parser.add_argument("--links", default="auto")
    parser.add_argument("--json", type=Path)
    found = measure(parser.parse_args())
    show(found)
    sys.exit(1 if judge(found, len(os.sched_getaffinity(0))) else 0)
