"""How fast the simulator is, and whether SimGrid says the same. Run it on a quiet machine.

python benchmarks/simulate.py                            the bars, each in a process of its own, on one core
python benchmarks/simulate.py --simgrid /usr/bin/python3 the comparison, with a Python that has SimGrid
    (Debian: apt install python3-simgrid; or a venv with pip install simgrid)
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from itertools import pairwise
from multiprocessing import Pipe, get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from unisono.interpret.machine import Link, Machine
from unisono.schedule.catalog import find
from unisono.schedule.schedule import Schedule
from unisono.simulate import Outcome, simulate, topology
from unisono.simulate.rounds import batches

NBYTES = 64 << 20
MILLION = 1 << 20
WORKER = Path(__file__).with_name("simgrid_flows.py")
MACHINE = Machine(Link(alpha=30e-6, beta=8 / 10e9), gamma=0.0)
IRREGULAR = {7 * k: 1 + k % 5 for k in range(1, 250)}
"""Stragglers of many kinds, so that no two ranks are at the same moment."""

BARS: list[tuple[str, str, int, str, dict[str, Any], float | None]] = [
    ("irregular, 249 stragglers", "recursive_doubling", MILLION - 1, "switch", {"stragglers": IRREGULAR}, None),
    ("irregular, 249 stragglers", "circulant", 99_991, "switch", {"stragglers": IRREGULAR}, None),
    ("irregular, 249 stragglers", "mesh_2d", 6000, "switch", {"stragglers": IRREGULAR}, None),
    ("irregular, over links", "ring", 2000, "torus:20x10x10", {"stragglers": IRREGULAR, "hop": 1e-6}, None),
    ("recursive doubling, lockstep", "recursive_doubling", MILLION, "switch", {"mode": "lockstep"}, 2),
    ("recursive doubling, flows", "recursive_doubling", MILLION, "switch", {}, 2),
    ("routed contention, lockstep", "recursive_doubling", MILLION, "torus:128x128x64", {"mode": "lockstep"}, 15),
    ("routed contention, flows", "recursive_doubling", MILLION, "torus:128x128x64", {}, 15),
    ("routed contention, flows", "recursive_doubling", MILLION, "hierarchy:131072x8", {}, 15),
    ("ring by symmetry", "ring", 65_536, "ring", {}, 1),
    ("ring by symmetry", "ring", 65_536, "switch", {"mode": "lockstep"}, 1),
    ("ring with a straggler", "ring", 4096, "switch", {"stragglers": {7: 4.0}}, 30),
    ("ring with a straggler", "ring", 4096, "torus:16x16x16", {"stragglers": {7: 4.0}}, 30),
]
LEAST_RATE = 3e6
MOST_MEMORY = 1024

COMPARED = [
    (algorithm, p, on)
    for p, on in (
        (64, "switch"),
        (64, "ring"),
        (64, "torus:4x4x4"),
        (60, "mesh:10x6"),
        (64, "fat-tree:4x4x4"),
        (60, "hierarchy:12x5"),
    )
    for algorithm in ("ring", "recursive_doubling", "halving_doubling", "circulant", "mst", "double_binary_tree",
                      "hierarchical", "mesh_2d", "direct")
] + [
    (algorithm, 1024, on)
    for on in ("switch", "torus:8x8x16", "hierarchy:128x8", "fat-tree:16x8x8")
    for algorithm in ("recursive_doubling", "halving_doubling", "mst")
]  # fmt: skip


def alone(schedule: Schedule, on: str, options: dict[str, Any]) -> tuple[float, float, int]:
    """Seconds, MiB and messages of a simulation in a process of its own."""

    def run(pipe: Connection) -> None:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        start = time.perf_counter()
        outcome = simulate(schedule, NBYTES, on=on, **options)
        seconds = time.perf_counter() - start
        pipe.send((seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, outcome.messages))

    receiver, sender = Pipe(duplex=False)
    process = get_context("fork").Process(target=run, args=(sender,))
    process.start()
    result = receiver.recv()
    process.join()
    return result


def show_bars() -> bool:
    held = True
    print(f"{'':44}{'ranks':>10}{'messages':>15}{'seconds':>9}{'bar':>6}{'M msg/s':>10}{'MiB':>7}")
    for name, algorithm, p, on, options, bar in BARS:
        seconds, memory, messages = alone(find("allreduce", algorithm).schedule(p), on, options)
        ok = memory <= MOST_MEMORY and (seconds <= bar if bar else messages / seconds >= LEAST_RATE)
        held = held and ok
        limit = f"{bar:g} s" if bar else "3 M/s"
        print(
            f"{'ok  ' if ok else 'MISS'} {f'{name}, {on}':39}{p:>10,}{messages:>15,}{seconds:>9.2f}{limit:>6}"
            f"{messages / seconds / 1e6:>10.3g}{memory:>7.0f}",
            flush=True,
        )
    return held


def in_simgrid(python: str, schedule: Schedule, on: str) -> float:
    joined = topology(on, schedule.p)
    rounds = []
    for batch in batches(schedule, schedule.layout(NBYTES)):
        offset, link = joined.routes(batch.source, batch.target)
        ways = [link[a:b].tolist() for a, b in pairwise(offset)]
        columns = batch.source.tolist(), batch.target.tolist(), batch.nbytes.tolist(), ways
        rounds += [list(zip(*columns, strict=True))] * batch.repeat
    beta = MACHINE.link.beta
    job = {"ranks": schedule.p, "alpha": MACHINE.link.alpha, "beta": beta, "rounds": rounds}
    job["links"] = (joined.beta() * beta).tolist()
    done = subprocess.run(
        [python, WORKER], input=json.dumps(job), capture_output=True, text=True, check=True, timeout=170
    )
    return float(done.stdout)


def compare(python: str, only: str) -> bool:
    held = True
    print(f"{'':52}{'SimGrid':>12}{'flows':>12}{'':>8}{'fair':>12}")
    for algorithm, p, on in COMPARED:
        if only not in f"{algorithm} {p} {on}":
            continue
        schedule = find("allreduce", algorithm).schedule(p)
        theirs = in_simgrid(python, schedule, on)

        def ours(fair: bool, schedule: Schedule = schedule, on: str = on) -> Outcome:
            return simulate(schedule, NBYTES, MACHINE, on, fair=fair)

        first, alike = ours(False).time / theirs - 1, ours(True).time / theirs - 1
        ok = abs(first) <= 0.05
        held = held and ok
        print(
            f"{'ok  ' if ok else 'MISS'} {algorithm:20}{p:>6} ranks, {on:15}{theirs:>12.6f}"
            f"{ours(False).time:>12.6f}{first:>+8.2%}{ours(True).time:>12.6f}{alike:>+8.2%}",
            flush=True,
        )
    return held


if __name__ == "__main__":
    if "--simgrid" in sys.argv:
        place = sys.argv.index("--simgrid")
        sys.exit(0 if compare(sys.argv[place + 1], " ".join(sys.argv[place + 2 :])) else 1)
    sys.exit(0 if show_bars() else 1)
