"""Algorithms of one collective against each other, as the figures of docs/tune.md were made.

unisono run -n P python benchmarks/pairs.py SECONDS COLLECTIVE BYTES ALGORITHM ALGORITHM …
unisono run -n 4 python benchmarks/pairs.py 4 allgather 1024 recursive_doubling flat gather+broadcast

Each runs in loops of 8 ms, in ever another order, once in a loop between barriers and once call by call, where a call
takes as long as its slowest rank. A ratio is to the first algorithm in the same turn; medians over turns. Two
collectives with + between them run one after the other. Over TCP with UNISONO_LINKS=tcp, and in a lab with `unisono
lab`. Prices are the default ones.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from random import Random
from time import perf_counter

import numpy as np

import unisono
from unisono.comm.stopwatch import ROOTED, Arrays, Cell, call_of, slowest

Call = Callable[[], object]
SECONDS_OF_A_LOOP = 0.008
TURNS = 10  # at least
EMPTIES_BUCKETS = 4096  # bytes, from which tokens that a lab has saved up would count


def contestant(comm: unisono.Communicator, collective: str, name: str, nbytes: int, arrays: Arrays) -> Call:
    """An algorithm, or collectives one after the other."""
    if "+" not in name:
        return call_of(comm, Cell(collective, name, nbytes), arrays)
    calls = [call_of(comm, Cell(each, None, nbytes), arrays) for each in name.split("+")]

    def one_after_the_other() -> None:
        for call in calls:
            call()

    return one_after_the_other


def seconds_in_a_loop(comm: unisono.Communicator, call: Call, count: int) -> float:
    """For each call, of the slowest rank."""
    comm.barrier()
    begun = perf_counter()
    for _ in range(count):
        call()
    comm.barrier()
    return float(comm.allreduce(np.array([perf_counter() - begun]), op="max")[0]) / count


def compare(comm: unisono.Communicator, seconds: float, collective: str, nbytes: int, names: list[str]) -> None:
    arrays = Arrays()
    calls = [contestant(comm, collective, name, nbytes, arrays) for name in names]
    for call in calls:
        seconds_in_a_loop(comm, call, 3)
    costs = [seconds_in_a_loop(comm, call, 8) for call in calls]
    counts = comm.broadcast(np.clip(SECONDS_OF_A_LOOP / np.array(costs), 3, 200).astype(np.int64)).tolist()
    traffic = np.zeros(64 << 10, np.float32) if len(set(comm.hosts)) > 1 and nbytes >= EMPTIES_BUCKETS else None
    loops, singles = [], []
    until = perf_counter() + seconds
    while comm.broadcast(np.array([perf_counter() < until or len(loops) < TURNS]))[0]:
        in_loop, single = np.zeros(len(names)), np.zeros(len(names))
        for i in Random(len(loops)).sample(range(len(names)), len(names)):
            if traffic is not None:
                comm.allreduce(traffic, out=traffic, algorithm="ring")
            calls[i]()
            in_loop[i] = seconds_in_a_loop(comm, calls[i], counts[i])
            single[i] = np.median(slowest(comm, calls[i], counts[i], apart=collective in ROOTED))
        loops.append(in_loop)
        singles.append(single)
    if comm.rank == 0:
        print(f"{collective} of {nbytes} B, {comm.size} ranks, {len(loops)} turns: µs and times the first", flush=True)
        for i, name in enumerate(names):
            figures = [
                f"{np.median(x[:, i]) * 1e6:9.1f}  {np.median(x[:, i] / x[:, 0]):.2f}"
                for x in map(np.array, (loops, singles))
            ]
            print(f"  {name:28} in a loop {figures[0]}   call by call {figures[1]}", flush=True)


if __name__ == "__main__":
    with unisono.init(model="off") as comm:
        compare(comm, float(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4:])
