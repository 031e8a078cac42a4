"""The dependency engine against its bars, and against ThreadPoolExecutor and Dask on the same graph, in turns.

python benchmarks/engine.py [ROUNDS] [--only push,throughput,memory,overlap]

Pushes are timed while a first operation holds all variables, so that nothing runs meanwhile: that is what a push costs
the thread that pushes. Throughput is from the first push to the end of a random graph of operations that do nothing.
The pool gets the graph as concurrent.futures offers it: a task is submitted by the callback of the last one that it
waits for. Dask (`pip install dask`) is optional: without it, its bar is not judged. The overlap needs root and
iproute2, for two lab hosts; see engine_overlap.py. Run it on a quiet machine.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from random import Random
from typing import Any

import unisono
from unisono.bench.ratios import Spread, spread
from unisono.engine import nothing

ROUNDS = 7
PUSHES, OPERATIONS, MILLION = 100_000, 20_000, 1_000_000
VARIABLES, THREADS = 200, 2
NATIVE_PUSH, PYTHON_PUSH = 2.0, 5.0  # µs
OVER_POOL, OVER_DASK = 5.0, 30.0
MEMORY = 500.0  # MB


def no_op() -> None:
    pass


def bar(what: str, found: Spread, limit: float, unit: str, *, at_least: bool = False) -> bool:
    held = found.median >= limit if at_least else found.median <= limit
    sign = "≥" if at_least else "≤"
    quartiles = f"{found.lower:.3g} – {found.upper:.3g}"
    print(
        f"{'ok  ' if held else 'MISS'} {what}: {found.median:.3g}{unit} ({quartiles}), bar {sign} {limit:g}{unit}",
        flush=True,
    )
    return held


def push_time(body: Any, variables: int, *, bulk: bool = False) -> float:
    """Microseconds of one push, while what was pushed before waits."""
    with unisono.Engine(THREADS) as engine:
        used = [engine.variable() for _ in range(variables)]
        gate, entered = threading.Event(), threading.Event()
        engine.push(lambda: (entered.set(), gate.wait()), mutate=used)
        entered.wait()
        begun = time.perf_counter()
        if bulk:
            engine.push_all([(body, used[1:], used[:1])] * PUSHES)
        else:
            for _ in range(PUSHES):
                engine.push(body, used[1:], used[:1])
        seconds = time.perf_counter() - begun
        gate.set()
        engine.wait()
    return seconds / PUSHES * 1e6


def random_graph(seed: int) -> list[tuple[list[int], list[int]]]:
    """What each operation reads and mutates."""
    random = Random(seed)
    graph = []
    for _ in range(OPERATIONS):
        chosen = random.sample(range(VARIABLES), random.randint(1, 3))
        graph.append((chosen[1:], chosen[:1]))
    return graph


def waits_for(graph: list[tuple[list[int], list[int]]]) -> list[set[int]]:
    """The same as edges, for those who do not know variables."""
    last: dict[int, int] = {}
    readers: dict[int, list[int]] = {}
    found = []
    for number, (reads, mutates) in enumerate(graph):
        before = {last[v] for v in (*reads, *mutates) if v in last}
        for v in mutates:
            before.update(readers.pop(v, ()))
            last[v] = number
        for v in reads:
            readers.setdefault(v, []).append(number)
        found.append(before - {number})
    return found


def with_engine(graph: list[tuple[list[int], list[int]]], body: Any = no_op) -> float:
    with unisono.Engine(THREADS) as engine:
        variables = [engine.variable() for _ in range(VARIABLES)]
        begun = time.perf_counter()
        for reads, mutates in graph:
            engine.push(body, [variables[v] for v in reads], [variables[v] for v in mutates])
        engine.wait()
        return time.perf_counter() - begun


def with_pool(edges: list[set[int]]) -> float:
    """The dependencies are given; they are counted down by callbacks."""
    followers: list[list[int]] = [[] for _ in edges]
    missing = [len(before) for before in edges]
    for number, before in enumerate(edges):
        for other in before:
            followers[other].append(number)
    lock, left, through = threading.Lock(), [len(edges)], threading.Event()
    with ThreadPoolExecutor(THREADS) as pool:

        def run(number: int) -> None:
            pool.submit(no_op).add_done_callback(lambda _: ended(number))

        def ended(number: int) -> None:
            ready = []
            with lock:
                left[0] -= 1
                if not left[0]:
                    through.set()
                for follower in followers[number]:
                    missing[follower] -= 1
                    if not missing[follower]:
                        ready.append(follower)
            for follower in ready:
                run(follower)

        first = [number for number, count in enumerate(missing) if not count]
        begun = time.perf_counter()
        for number in first:
            run(number)
        through.wait()
        return time.perf_counter() - begun


def with_bare_pool() -> float:
    """As many operations without any dependency: the best that a pool can do."""
    with ThreadPoolExecutor(THREADS) as pool:
        begun = time.perf_counter()
        for future in [pool.submit(no_op) for _ in range(OPERATIONS)]:
            future.result()
        return time.perf_counter() - begun


def with_dask(edges: list[set[int]]) -> float:
    from dask.threaded import get

    def body(*_: Any) -> None:
        return None

    graph: dict[str, Any] = {f"t{i}": (body, *(f"t{b}" for b in before)) for i, before in enumerate(edges)}
    begun = time.perf_counter()
    get(graph, list(graph), num_workers=THREADS)
    return time.perf_counter() - begun


def resident() -> float:
    """MB of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def memory(*, keep: bool) -> float:
    """MB that a million operations hold that were pushed and wait. In a fresh process: memory that was used before is
    used again, and does not show."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as fresh:
        return fresh.submit(memory_here, keep=keep).result()


def memory_here(*, keep: bool) -> float:
    with unisono.Engine(THREADS) as engine:
        A, B, C = (engine.variable(name) for name in "ABC")
        gate = threading.Event()
        engine.push(gate.wait, mutate=[A, B, C])
        before, handles = resident(), []
        for _ in range(MILLION):
            handle = engine.push(no_op, [A, B], [C])
            if keep:
                handles.append(handle)
        held = resident() - before
        gate.set()
        engine.wait()
    return held


def pushes(rounds: int) -> list[bool]:
    held = []
    for name, body, limit in (("native", nothing, NATIVE_PUSH), ("Python", no_op, PYTHON_PUSH)):
        for variables in (1, 2, 3):
            found = spread([push_time(body, variables) for _ in range(rounds)])
            held.append(
                bar(f"push of a {name} no-op, {variables} variable{'s' * (variables > 1)}", found, limit, " µs")
            )
    found = spread([push_time(no_op, 3, bulk=True) for _ in range(rounds)])
    held.append(bar("push_all of Python no-ops, 3 variables, for each", found, PYTHON_PUSH, " µs"))
    return held


def throughput(rounds: int) -> list[bool]:
    has_dask = importlib.util.find_spec("dask") is not None
    over_pool, over_bare, over_dask, own, native = [], [], [], [], []
    for seed in range(rounds):
        graph = random_graph(seed)
        edges = waits_for(graph)
        ours = with_engine(graph)
        own.append(OPERATIONS / ours / 1e3)
        native.append(OPERATIONS / with_engine(graph, nothing) / 1e3)
        over_pool.append(with_pool(edges) / ours)
        over_bare.append(with_bare_pool() / ours)
        if has_dask and seed < 3:
            over_dask.append(with_dask(edges) / ours)
    print(f"     Python no-ops on a random graph, end to end: {spread(own).median:.0f} thousand a second")
    print(f"     native no-ops on the same graph: {spread(native).median:.0f} thousand a second")
    held = [
        bar("throughput over ThreadPoolExecutor's, the same graph", spread(over_pool), OVER_POOL, " ×", at_least=True)
    ]
    print(f"     over ThreadPoolExecutor's without any dependency: {spread(over_bare).median:.3g} ×")
    if has_dask:
        held.append(bar("throughput over Dask's threaded scheduler", spread(over_dask), OVER_DASK, " ×", at_least=True))
    else:
        print("     Dask is not here (pip install dask): not compared")
    return held


def memories(rounds: int) -> list[bool]:
    return [
        bar(what, spread([memory(keep=keep) for _ in range(rounds)]), MEMORY, " MB")
        for what, keep in (("a million pushed operations hold", False), ("the same with their handles", True))
    ]


def overlap(rounds: int) -> list[bool]:
    sys.path.insert(0, str(Path(__file__).parent))
    import engine_overlap

    return engine_overlap.judge(rounds, bar)


PARTS: dict[str, Callable[[int], list[bool]]] = {
    "push": pushes, "throughput": throughput, "memory": memories, "overlap": overlap,
}  # fmt: skip


def main(arguments: list[str]) -> bool:
    only = arguments[arguments.index("--only") + 1].split(",") if "--only" in arguments else list(PARTS)
    rounds = int(arguments[0]) if arguments and arguments[0].isdigit() else ROUNDS
    held = [each for name in only for each in PARTS[name](rounds)]
    return all(held)


if __name__ == "__main__":
    sys.exit(0 if main(sys.argv[1:]) else 1)
