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
started (then), once by prices fitted in the same rounds to what `unisono tune` measures (now); the machine changes its
speed for seconds at a time, which no prediction knows before. So regret, too, is shown for what is chosen by the one
(ours) and by the other (now). A job has --limit seconds, of which sizes, loops and guidelines have their parts: they
are done as often as fits in, up to --rounds times, and once in any case. A job that has not ended 60 s later is ended,
and left out. Beyond 1 MB, and where a call takes 3 ms, a turn is one call of each, two turns at least; what takes over
3 times as long as the best is left out there, and named: what is predicted to, and has a busiest wire that carries over
3 times the bytes, is not even tried, and the rest is tried once. The lab needs root and iproute2: a host for each rank,
or --hosts of them, at 1 Gbit/s, or at another --rate; with --tune each of these labs is measured before.
--guidelines checks those alone: all of --limit is for them.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from random import Random
from time import perf_counter
from typing import Any

import numpy as np

import unisono
from unisono.comm.calibrate import calibration_cells, prices_from
from unisono.comm.stopwatch import Arrays, Cell, call_of, slowest, time_in_turns
from unisono.interpret.share import share_all
from unisono.lab import Lab
from unisono.schedule.spelling import schedule_named
from unisono.tune.defaults import COSTS
from unisono.tune.model import Model
from unisono.tune.select import Selector
from unisono.tune.terms import kind_of, work_of

KB, MB = 1 << 10, 1 << 20
GRACE = 60.0
LOOPS, TURNS_OF_SIZES, GUIDED_PART = 0.3, 0.55, 0.15
"""Parts of the limit of a job."""
LARGE = {8 * MB: 2.0, 64 * MB: 5.0}
"""How many times as long as a small size these have."""
SIZES = (8, KB, 16 * KB, 128 * KB, MB, 8 * MB, 64 * MB)
HOPELESS, FAR_FROM_BEST = 2.5, 3.0
SECONDS, BRIEF = 0.004, 0.0004
TURNS = 8
"""In a round: so short that all algorithms meet the machine in the same mood."""
FEW_BYTES, BUCKET = 4 * KB, 256 * KB
SLOW_CALL = 0.003
"""Seconds: what is predicted to take longer is measured call by call, as all beyond 1 MB."""
NOISE, SECOND_LOOK = 1.15, 31
GUIDELINES = (
    ("allreduce", ("reduce", "broadcast")),
    ("allgather", ("gather", "broadcast")),
    ("reduce_scatter", ("reduce", "scatter")),
    ("broadcast", ("scatter", "allgather")),
    ("scatter", ("broadcast",)),
    ("gather", ("allgather",)),
    ("reduce", ("allreduce",)),
)
GUIDED = {KB: 60, 64 * KB: 20, MB: 4}  # bytes: calls in a round
UNISONO = str(Path(sys.executable).parent / "unisono")


def thresholds(nbytes: int) -> str:
    """Of MPICH, for allreduces of commutative operators."""
    return "recursive_doubling" if nbytes <= 2 * KB else "halving_doubling"


class Budget:
    """So many seconds by rank 0's clock, which all ranks go by."""

    def __init__(self, comm: unisono.Communicator, seconds: float) -> None:
        self.comm, self.until = comm, perf_counter() + seconds

    def is_left(self) -> bool:
        return bool(self.comm.broadcast(np.array([perf_counter() < self.until]))[0])

    def rounds(self, most: int, fewest: int = 1) -> Iterator[int]:
        """The numbers of the rounds that fit in."""
        for number in range(most):
            if number >= fewest and not self.is_left():
                return
            yield number


def has_buckets(comm: unisono.Communicator, nbytes: int) -> bool:
    """Do calls of that size take tokens that others could have?"""
    return len(set(comm.hosts)) > 1 and nbytes >= FEW_BYTES


def emptying(comm: unisono.Communicator) -> Callable[[], Any]:
    """Takes all tokens from the buckets of a lab."""
    data = np.zeros(BUCKET // 4, np.float32)
    return lambda: comm.allreduce(data, out=data, algorithm="ring")


class Large:
    """The algorithms of a large vector, one call of each in a turn."""

    def __init__(self, comm: unisono.Communicator, cells: list[Cell], predicted: dict[str, float]) -> None:
        self.comm, self.left_out = comm, [str(cell.algorithm) for cell in cells]
        arrays = Arrays()
        self.calls = {cell: call_of(comm, cell, arrays) for cell in cells if self._may_win(cell, predicted)}
        for cell in self.calls:
            call_of(comm, cell._replace(nbytes=8), arrays)()  # what a first call prepares depends on no size
        tried = {cell: float(slowest(comm, call, 1)[0]) for cell, call in self.calls.items()}
        limit = FAR_FROM_BEST * min(tried.values())
        self.cells = [cell for cell, taken in tried.items() if taken <= limit]
        self.left_out = [name for name in self.left_out if name not in {cell.algorithm for cell in self.cells}]

    def _may_win(self, cell: Cell, predicted: dict[str, float]) -> bool:
        """Unless the model and the bytes of the busiest wire both say that it cannot."""
        place, p = self.comm._runner.selector.place, self.comm.size
        bytes_of = {name: work_of("allreduce", name, p, cell.nbytes, place).wire_at_once for name in predicted}
        name = str(cell.algorithm)
        return predicted[name] <= FAR_FROM_BEST * min(predicted.values()) or bytes_of[name] <= FAR_FROM_BEST * min(
            bytes_of.values()
        )

    def turn(self, number: int) -> Any:
        found = np.zeros((1, len(self.cells)))
        for cell in Random(number).sample(self.cells, len(self.cells)):
            found[0, self.cells.index(cell)] = slowest(self.comm, self.calls[cell], 1)[0]
        return found


def say(comm: unisono.Communicator, text: str) -> None:
    if comm.rank == 0:
        print(text, flush=True)


def measure(sizes: list[int], rounds: int, limit: float) -> None:
    """One rank; the first one prints what it found."""
    with unisono.init() as comm:
        selector = comm._runner.selector
        chosen = {nbytes: selector.choose("allreduce", comm.size, nbytes) for nbytes in sizes}
        predictions = {n: dict(selector.predictions("allreduce", comm.size, n, chosen[n])) for n in sizes}
        shared = selector.place.shares_memory
        first = {n: first_of_their_kind(list(predictions[n]), comm.size, shared) for n in sizes}
        cells = {n: [Cell("allreduce", text, n) for text in dict.fromkeys(first[n].values())] for n in sizes}
        slow = [n for n in sizes if n > MB or min(predictions[n].values()) > SLOW_CALL]
        large = {n: Large(comm, cells[n], predictions[n]) for n in slow}
        cells |= {n: of_size.cells for n, of_size in large.items()}
        found: dict[int, list[Any]] = {n: [] for n in sizes}
        for n in sizes:
            part = LARGE.get(n, 1.0) / sum(LARGE.get(m, 1.0) for m in sizes)
            budget = Budget(comm, TURNS_OF_SIZES * limit * part)
            for number in budget.rounds(2 * rounds if n in large else rounds, fewest=2 if n in large else 1):
                say(comm, f"{n} B, round {number + 1}")
                if n in large:
                    found[n].append(large[n].turn(number))
                else:
                    found[n].append(
                        time_in_turns(
                            comm,
                            cells[n],
                            rounds=TURNS,
                            seconds=SECONDS if has_buckets(comm, n) else BRIEF,
                            hopeless=HOPELESS,
                            before=emptying(comm) if has_buckets(comm, n) else lambda: None,
                        )
                    )
        small = [cell for n in sizes if n not in large for cell in cells[n]]
        known = calibration_cells(kind_of(selector.place))
        loops = []
        for number in Budget(comm, LOOPS * limit).rounds(rounds):
            say(comm, f"loops, round {number + 1}")
            loops.append(time_in_turns(comm, [*small, *known], rounds=1, seconds=SECONDS, hopeless=HOPELESS))
        medians = np.nanmedian(np.concatenate(loops), axis=0)
        steady = dict(zip([*small], medians, strict=False))
        for n, of_size in large.items():
            steady |= dict(zip(of_size.cells, np.median(np.concatenate(found[n]), axis=0), strict=True))
        known_times = medians[len(small) :]
        timed = [i for i, seconds in enumerate(known_times) if not np.isnan(seconds)]
        prices = prices_from([known[i] for i in timed], known_times[timed], comm.size, selector.place)
        fitted = Model({**COSTS, kind_of(selector.place): prices})
        say(comm, "guidelines")
        guided = guidelines(comm, rounds, GUIDED_PART * limit)
        all_cells = [cell for n in sizes for cell in cells[n]]
        if comm.rank == 0:
            facts = {
                "p": comm.size,
                "hosts": len(set(comm.hosts)),
                "origin": selector.model.origin,
                "chosen": chosen,
                "chosen_now": {n: Selector(fitted, selector.place).choose("allreduce", comm.size, n) for n in sizes},
                "cells": [[cell.algorithm, cell.nbytes] for cell in all_cells],
                "first": first,
                "left_out": {n: of_size.left_out for n, of_size in large.items()},
                "predicted": [predictions[cell.nbytes][str(cell.algorithm)] for cell in all_cells],
                "fitted": [
                    fitted.seconds("allreduce", str(cell.algorithm), comm.size, cell.nbytes, selector.place)
                    for cell in all_cells
                ],
                "times": [taken for n in sizes for taken in np.concatenate(found[n]).T.tolist()],
                "steady": [float(steady[cell]) for cell in all_cells],
                "known": [[*known[i], float(known_times[i])] for i in timed],
                "guided": guided,
                "rounds": {"loops": len(loops)} | {str(n): len(found[n]) for n in sizes},
            }
            print("FOUND " + json.dumps(facts), flush=True)


def check_guidelines(rounds: int, limit: float) -> None:
    """One rank; the first one prints what it found."""
    with unisono.init() as comm:
        guided = guidelines(comm, rounds, limit)
        if comm.rank == 0:
            print("FOUND " + json.dumps({"p": comm.size, "guided": guided}), flush=True)


def first_of_their_kind(texts: list[str], p: int, shared: bool) -> dict[str, str]:
    """Algorithms that make the ranks do the very same, as all do between two, are one."""
    kinds: dict[Any, str] = {}
    found = {}
    for text in texts:
        schedule = schedule_named("allreduce", text, p)
        programs = [(x.blocks, x.places, x.rows, x.references) for x in share_all(schedule)] if shared else None
        parts = programs or [(*schedule.table.puts, *schedule.table.gets)]
        kind = tuple(np.asarray(part).tobytes() for program in parts for part in program)
        found[text] = kinds.setdefault(kind, text)
    return found


def guidelines(comm: unisono.Communicator, rounds: int, seconds: float) -> list[float]:
    """For each guideline and size, the median over turns of what the call takes over what its parts take in the next
    loop. Of many medians some are high by chance: what seems to be broken is measured anew, with more turns, and only
    that counts."""
    arrays = Arrays()
    ratios = []
    for whole, parts in GUIDELINES:
        for nbytes, count in GUIDED.items():
            one = call_of(comm, Cell(whole, None, nbytes), arrays)
            others = [call_of(comm, Cell(part, None, nbytes), arrays) for part in parts]
            budget = Budget(comm, seconds / (len(GUIDELINES) * len(GUIDED)))
            first = in_pairs(comm, one, others, count, budget.rounds(3 * rounds + 1, fewest=4))
            ratios.append(first if first <= NOISE else in_pairs(comm, one, others, count, range(SECOND_LOOK)))
    return ratios


def in_pairs(
    comm: unisono.Communicator,
    one: Callable[[], Any],
    others: list[Callable[[], Any]],
    count: int,
    turns: Iterable[int],
) -> float:
    """How much longer one call takes than others: the median of loops of both, one after the other, in either order."""
    ratios = []
    for turn in turns:
        calls = ([one], others) if turn % 2 else (others, [one])
        first, second = (loop(comm, some, count) for some in calls)
        ratios.append(first / second if turn % 2 else second / first)
    return float(comm.broadcast(np.array([np.median(ratios[1:])]))[0])


def loop(comm: unisono.Communicator, calls: list[Callable[[], Any]], count: int) -> float:
    """Seconds from one barrier to the next: ranks that share cores do not work at the same time."""
    comm.barrier()
    begun = perf_counter()
    for _ in range(count):
        for call in calls:
            call()
    comm.barrier()
    return float(comm.allreduce(np.array([perf_counter() - begun]), op="max")[0])


def run(kind: str, p: int, given: argparse.Namespace, model: str) -> dict[str, Any] | None:
    """One job; None if it did not end in time."""
    begun = perf_counter()
    print(f"{kind}, {p} ranks", end="", flush=True)
    try:
        found = run_job(kind, p, given, model)
    except subprocess.TimeoutExpired as error:
        said = (error.stdout or b"").decode().splitlines() or ["nothing"]
        print(f": did not end in {given.limit + GRACE:.0f} s; the last was: {said[-1]}", flush=True)
        return None
    print(f": {perf_counter() - begun:.0f} s, rounds {found.get('rounds', 'of guidelines')}", flush=True)
    return found


def run_job(kind: str, p: int, given: argparse.Namespace, model: str) -> dict[str, Any]:
    """What the ranks found."""
    sizes = "guidelines" if given.guidelines else ",".join(map(str, given.sizes))
    words = [sys.executable, __file__, "--measure", sizes, given.rounds, given.limit]
    words, timeout = [str(word) for word in words], given.limit + GRACE
    environment = os.environ | {"UNISONO_MODEL": model, "UNISONO_LINKS": "tcp" if kind == "tcp" else "auto"}
    if kind == "lab":
        done = run_in_lab(words, p, given, environment, timeout)
    else:
        command = [UNISONO, "run", "-n", str(p), *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, env=environment)
    for line in done.stdout.splitlines():
        _, is_found, found = line.partition("FOUND ")
        if is_found:
            return {"kind": kind, **json.loads(found)}
    raise SystemExit(f"{kind}, {p} ranks: {done.stderr[-2000:]}")


def run_in_lab(
    words: list[str], p: int, given: argparse.Namespace, environment: dict[str, str], timeout: float
) -> subprocess.CompletedProcess[str]:
    """In a lab of its own, whose model is measured before if that is asked for."""
    with tempfile.TemporaryDirectory() as directory:
        model = environment["UNISONO_MODEL"]
        share = [directory, *([Path(model).resolve().parent] if Path(model).is_file() else [])]
        with Lab(hosts=given.hosts or p, rate=given.rate, share=share) as lab:
            if given.tune:
                model = f"{directory}/lab.json"
                begun = perf_counter()
                tuned = lab.run(UNISONO, "tune", "--out", model, ranks=p, timeout=120)
                if tuned.returncode:
                    raise SystemExit(tuned.stderr)
                print(f", tuned in {perf_counter() - begun:.0f} s", end="", flush=True)
            return lab.run(*words, ranks=p, timeout=timeout, env=environment | {"UNISONO_MODEL": model})


def tune_here(directory: str) -> str:
    """A model for this machine."""
    here = f"{directory}/here.json"
    subprocess.run([UNISONO, "tune", "--out", here], check=True)
    return here


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


def broken_guidelines(found: dict[str, Any]) -> list[str]:
    cells = [(whole, parts, nbytes) for whole, parts in GUIDELINES for nbytes in GUIDED]
    return [
        f"{whole} of {nbytes} B takes {ratio:.2f} times {' + '.join(parts)}"
        for (whole, parts, nbytes), ratio in zip(cells, found["guided"], strict=True)
        if ratio > NOISE
    ]


def show_guidelines(lines: list[dict[str, Any]]) -> None:
    for found in lines:
        broken = broken_guidelines(found)
        held = len(found["guided"]) - len(broken)
        print(f"{found['kind']:6} p = {found['p']:<3} {held} of {len(found['guided'])} guidelines hold within {NOISE}")
        for line in broken:
            print(f"{'':12}{line}")


def show(jobs: list[Job], cores: int) -> None:
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
    for name, (belongs, most, most_error) in groups.items():
        some = [job for job in jobs if belongs(job)]
        if not some:
            continue
        ours, ring, table = (
            float(np.mean([x for job in some for x in f(job)])) for f in (Job.ours, Job.ring, Job.table)
        )
        error = float(np.median([x for job in some for x in job.errors()]))
        good = ours <= most and ours < min(ring, table) and (most_error is None or error <= most_error)
        limit = f"{most:.0%}" + (f", {most_error:.0%}" if most_error else "")
        word = "ok  " if good else "MISS"
        print(f"{word} {name}: regret {ours:.1%}, error {error:.1%} (bars {limit}); ring {ring:.1%}, MPICH {table:.1%}")


def main() -> None:
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
        lines = []
        for kind in filter(None, kinds):
            for p in map(int, filter(None, given.ranks.split(","))):
                if (found := run(kind, p, given, models[kind])) is None:
                    continue
                lines.append(found)
                if given.json:
                    with given.json.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(lines[-1]) + "\n")
    if given.json:
        lines = [json.loads(line) for line in given.json.read_text(encoding="utf-8").splitlines()]
    if given.guidelines:
        show_guidelines(lines)
    else:
        show([Job(line) for line in lines], os.cpu_count() or 1)


if __name__ == "__main__":
    if sys.argv[1:3] == ["--measure", "guidelines"]:
        check_guidelines(int(sys.argv[3]), float(sys.argv[4]))
    elif sys.argv[1:2] == ["--measure"]:
        measure(list(map(int, sys.argv[2].split(","))), int(sys.argv[3]), float(sys.argv[4]))
    else:
        main()
