"""What a call costs besides its work: from Python alone, started instead of blocking, and by a user's own algorithm.

python benchmarks/overhead.py [PAIRS]

Whatever is compared runs in turns, in the same ranks; a figure is the slowest rank's, a ratio is of two turns side by
side, and what is printed is the median with quartiles. Run it on a quiet machine.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator

import numpy as np

import unisono
from unisono.bench.ratios import Spread, spread
from unisono.bench.wording import name_size
from unisono.interpret.register import register
from unisono.schedule.arithmetic import in_rank_order, others
from unisono.schedule.ir import ALL, EVERY_BLOCK, INPUT, Get, Put, Span
from unisono.schedule.pattern import all_alike

PAIRS = 31
SECONDS_OF_A_TURN = 0.02
SIZES = (8, 64 << 10, 4 << 20)
LARGEST_OVERHEAD, LARGEST_DELAY, LARGEST_RATIO = 0.5, 10.0, 1.1  # µs, µs
Call = Callable[[], object]


@register("allreduce", name="my_exchange", blocks=lambda p: 1, alike=all_alike)
def my_exchange(p: int, r: int) -> Iterator[tuple]:
    """As a user would write `exchange`."""
    peer = others(p, r)
    yield Put(peer, Span(0, EVERY_BLOCK, INPUT)), Get(peer, ALL, in_rank_order(peer, r))


@register("allreduce", name="my_direct", alike=all_alike)
def my_direct(p: int, r: int) -> Iterator[tuple]:
    """As a user would write `direct`."""
    peer = others(p, r)
    yield Put(peer, Span(peer)), Get(peer, Span(r), in_rank_order(peer, r))
    yield Put(peer, Span(r)), Get(peer, Span(peer))


def loop(call: Call, times: int) -> float:
    """Microseconds for each call."""
    begun = time.perf_counter_ns()
    for _ in range(times):
        call()
    return (time.perf_counter_ns() - begun) / times / 1e3


def alone(pairs: int) -> Spread:
    """Of 8 bytes in place, where there is nobody to talk to."""
    with unisono.init() as comm:
        x = np.zeros(2, np.float32)

        def call() -> object:
            return comm.allreduce(x, out=x)

        loop(call, 1000)
        return spread([loop(call, 20_000) for _ in range(pairs)])


def in_turns(comm: unisono.Communicator, one: Call, other: Call, pairs: int) -> list[tuple[float, float]]:
    """Microseconds of this rank for a call of each."""
    calls = (one, other)
    guess = max(loop(call, 20) for call in calls)
    agreed = comm.allreduce(np.array([SECONDS_OF_A_TURN * 1e6 / guess]), op="min")
    times = int(min(max(agreed[0], 5), 5000))
    found = []
    for number in range(pairs):
        first = number % 2
        figures = [0.0, 0.0]
        for which in (first, 1 - first):
            comm.barrier()
            figures[which] = loop(calls[which], times)
        found.append((figures[0], figures[1]))
    return found


def compare_starting(nbytes: int, pairs: int) -> list[tuple[float, float]]:
    with unisono.init() as comm:
        x = np.zeros(max(nbytes // 4, 1), np.float32)
        return in_turns(comm, lambda: comm.allreduce(x, out=x), lambda: comm.start("allreduce", x, out=x).wait(), pairs)


def compare_algorithms(name: str, nbytes: int, pairs: int) -> list[tuple[float, float]]:
    with unisono.init() as comm:
        x, mine = np.zeros(max(nbytes // 4, 1), np.float32), f"my_{name}"
        return in_turns(
            comm,
            lambda: comm.allreduce(x, out=x, algorithm=name),
            lambda: comm.allreduce(x, out=x, algorithm=mine),
            pairs,
        )


def slowest(by_rank: list[list[tuple[float, float]]]) -> list[tuple[float, float]]:
    return [(max(one for one, _ in turn), max(other for _, other in turn)) for turn in zip(*by_rank, strict=True)]


def bar(what: str, found: Spread, limit: float, unit: str = "") -> bool:
    held = found.median <= limit
    quartiles = f"{found.lower:.3g} – {found.upper:.3g}"
    print(
        f"{'ok  ' if held else 'MISS'} {what}: {found.median:.3g}{unit} ({quartiles}), bar {limit:g}{unit}", flush=True
    )
    return held


def main(pairs: int = PAIRS) -> bool:
    held = [bar("allreduce of 8 B in place, 1 rank", alone(pairs), LARGEST_OVERHEAD, " µs")]
    for nbytes in SIZES:
        turns = slowest(unisono.launch(compare_starting, 2, nbytes, pairs, timeout=120))
        more = spread([started - blocking for blocking, started in turns])
        held.append(bar(f"start and wait, beyond blocking, 2 ranks, {name_size(nbytes)}", more, LARGEST_DELAY, " µs"))
    for name in ("exchange", "direct"):
        for nbytes in SIZES:
            turns = slowest(unisono.launch(compare_algorithms, 2, name, nbytes, pairs, timeout=120))
            ratio = spread([mine / built_in for built_in, mine in turns])
            held.append(bar(f"a user's {name} ÷ ours, 2 ranks, {name_size(nbytes)}", ratio, LARGEST_RATIO))
    return all(held)


if __name__ == "__main__":
    sys.exit(0 if main(*map(int, sys.argv[1:])) else 1)
