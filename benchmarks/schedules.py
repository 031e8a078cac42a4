"""What it costs to unroll, verify and price schedules, from 64 to a million ranks. Run it on a quiet machine.

Every figure comes from a process of its own, so that memory is that of one job alone. Peers do not separate these
steps from running, so there is nobody to compare with: the bars are our own.
"""

from __future__ import annotations

import multiprocessing
import resource
import statistics
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import Connection

from unisono.interpret.explain import explain
from unisono.interpret.price import price
from unisono.interpret.verify import verify
from unisono.schedule.catalog import algorithms, find
from unisono.schedule.conditions import COLLECTIVES

NBYTES = 64 << 20
RANKS = (64, 1024, 65_536, 1 << 20)
SHOWN = (
    ("allreduce", "recursive_doubling"),
    ("allreduce", "ring"),
    ("allreduce", "circulant"),
    ("allreduce", "mst"),
    ("allreduce", "double_binary_tree"),
    ("allgather", "recursive_doubling"),
    ("broadcast", "mst"),
    ("broadcast", "pipelined_chain"),
)
LOG_ROUNDS = ("mst", "recursive_doubling", "recursive_halving", "halving_doubling", "bruck", "circulant",
              "double_binary_tree", "dissemination")  # fmt: skip


def alone(job: Callable[[], object]) -> tuple[float, float]:
    """Seconds, and MiB that the process grew by, of a job in a process of its own."""

    def run(pipe: Connection) -> None:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        start = time.perf_counter()
        job()
        pipe.send((time.perf_counter() - start, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024))

    receiver, sender = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=run, args=(sender,))
    process.start()
    result = receiver.recv()
    process.join()
    return result


def cell(job: Callable[[], object]) -> str:
    seconds, mebibytes = alone(job)
    return f"{seconds * 1e3:8.1f} ms {mebibytes:5.0f} MiB"


def bar(name: str, value: float, limit: float, unit: str) -> bool:
    held = value < limit
    print(f"  {'ok  ' if held else 'MISS'} {name}: {value:.3g} {unit} (bar: {limit:g} {unit})")
    return held


def show_table() -> None:
    print(f"{'':34}{'unroll all ranks':>22}{'verify':>22}{'price':>22}")
    for p in RANKS:
        print(f"p = {p:,}")
        for collective, name in SHOWN:
            schedule = find(collective, name).schedule(p)
            small = p <= 1024
            unroll = cell(lambda s=schedule: s.table) if small else "–"
            check = cell(lambda s=schedule: verify(s.table)) if small else "–"
            cost = cell(lambda s=schedule: price(s, NBYTES))
            print(f"  {collective + ' ' + name:32}{unroll:>22}{check:>22}{cost:>22}")


def program_seconds(collective: str, name: str, p: int) -> tuple[float, int]:
    """Median seconds to unroll one rank's program, and how many operations it has."""
    schedule = find(collective, name).schedule(p)
    seconds, operations = [], 0
    for rank in (1, p // 3, p // 2, p - 1) * 3:
        start = time.perf_counter()
        program = schedule.program(rank)
        seconds.append(time.perf_counter() - start)
        operations = max(operations, sum(map(len, program)))
    return statistics.median(seconds), operations


def show_bars() -> bool:
    print("\nbars")
    seconds, mebibytes = alone(lambda: price(find("allreduce", "recursive_doubling").schedule(1 << 20), NBYTES))
    held = [
        bar("price of recursive doubling, p = 2^20", seconds, 2, "s"),
        bar("  its memory", mebibytes, 1024, "MiB"),
    ]
    for algorithm in algorithms():
        collective, name, p = algorithm.collective.name, algorithm.name, 4096
        seconds, operations = program_seconds(collective, name, p)
        long_lists = (collective, name) == ("alltoall", "bruck")  # few rounds, but p/2 blocks in each
        if (name in LOG_ROUNDS and not long_lists) or (collective, name) == ("scan", "recursive_doubling"):
            held.append(bar(f"program of {collective} {name}, p = 4096", seconds * 1e3, 1, "ms"))
        elif operations >= 1000:
            held.append(bar(f"program of {collective} {name}, p = 4096", seconds / operations * 1e6, 2, "µs/operation"))
    for collective in COLLECTIVES:
        for p in (1 << 20, (1 << 20) - 1):
            seconds, _ = alone(lambda c=collective, p=p: explain(c, p, NBYTES))
            held.append(bar(f"explain {collective}, every algorithm, p = {p:,}", seconds, 5, "s"))
    return all(held)


if __name__ == "__main__":
    show_table()
    sys.exit(0 if show_bars() else 1)
