"""A layered backward pass whose gradients are reduced as they appear, on two lab hosts at 1 Gbit/s.

python benchmarks/engine_overlap.py [ROUNDS]

Computing a layer is a sleep: a stand-in for an accelerator, which does not use the CPU that the network needs. The time
with the engine is compared with the longer one of computing alone and communicating alone, which are as long as each
other: the hardest case. Without the engine it takes their sum. Beside it, real matrix products on the CPU, which both
ranks share with the kernel's network: reported, not judged. Needs root and iproute2.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from time import perf_counter, sleep
from typing import Any

import numpy as np

import unisono
from unisono.bench.ratios import Spread, spread
from unisono.lab import Lab

LAYERS, ELEMENTS = 24, 1 << 18  # 1 MiB each
BAR = 1.15
ROWS = 256


class Backward:
    """The backward pass of a model, from the last layer to the first."""

    def __init__(self, comm: unisono.Communicator, compute: Callable[[int], None]) -> None:
        self.comm, self._compute = comm, compute
        self.gradients = [np.zeros(ELEMENTS, np.float32) for _ in range(LAYERS)]

    def layer(self, number: int) -> None:
        self._compute(number)
        self.gradients[number].fill(1.0)

    def computed(self) -> None:
        for number in reversed(range(LAYERS)):
            self.layer(number)

    def reduced(self) -> None:
        for number in reversed(range(LAYERS)):
            self.comm.allreduce(self.gradients[number], out=self.gradients[number])

    def one_after_the_other(self) -> None:
        self.computed()
        self.reduced()

    def with_engine(self, engine: unisono.Engine) -> None:
        """The engine is told what each operation uses, and nothing about overlap."""
        error = engine.variable("error")  # which goes back through the layers
        for number in reversed(range(LAYERS)):
            gradient = self.gradients[number]
            variable = engine.tag(gradient, f"gradient {number}")
            engine.push(lambda number=number: self.layer(number), mutate=[error, variable], name=f"layer {number}")
            self.comm.allreduce_async(gradient, out=gradient, engine=engine, mutate=[variable])
        engine.wait(deadline=60)
        assert all(gradient[0] == self.comm.size for gradient in self.gradients)


def slowest(comm: unisono.Communicator, work: Callable[[], None]) -> float:
    comm.barrier()
    begun = perf_counter()
    work()
    return float(comm.allreduce(np.array([perf_counter() - begun]), op="max")[0])


def matrix_product() -> Callable[[int], None]:
    x = np.ones((ROWS, 1024), np.float32)
    weights = np.ones((1024, 1024), np.float32)
    return lambda number: np.matmul(x, weights, out=x)  # type: ignore[func-returns-value]


def measure(comm: unisono.Communicator, rounds: int) -> dict[str, list[dict[str, float]]]:
    found: dict[str, list[dict[str, float]]] = {"sleep": [], "product": []}
    trial = Backward(comm, lambda number: None)
    trial.reduced()
    each = slowest(comm, trial.reduced) / LAYERS
    kinds: dict[str, Callable[[int], None]] = {"sleep": lambda number: sleep(each), "product": matrix_product()}
    with unisono.Engine(2) as engine:
        for _ in range(rounds):
            for name, compute in kinds.items():
                work = Backward(comm, compute)
                found[name].append({
                    "compute": slowest(comm, work.computed),
                    "reduce": slowest(comm, work.reduced),
                    "sum": slowest(comm, work.one_after_the_other),
                    "engine": slowest(comm, lambda work=work: work.with_engine(engine)),
                })  # fmt: skip
    return found


def rank(rounds: int) -> None:
    with unisono.init() as comm:
        found = measure(comm, rounds)
        if comm.rank == 0:
            print("FOUND " + json.dumps(found), flush=True)


def judge(rounds: int, bar: Callable[..., bool]) -> list[bool]:
    with Lab(hosts=2, rate="1gbit") as lab:
        done = lab.run(__file__, "rank", rounds, ranks=2, timeout=150)
    if done.returncode:
        print(done.stdout, done.stderr, file=sys.stderr)
        return [False]
    line = next(line for line in done.stdout.splitlines() if "FOUND " in line)
    found: dict[str, Any] = json.loads(line.split("FOUND ", 1)[1])
    for name, turns in found.items():
        middle = {key: spread([turn[key] for turn in turns]).median * 1e3 for key in turns[0]}
        what = "compute that does not use the CPU" if name == "sleep" else "matrix products on the CPU"
        print(f"     {what}: " + ", ".join(f"{key} {value:.0f} ms" for key, value in middle.items()))
    ratios = [turn["engine"] / max(turn["compute"], turn["reduce"]) for turn in found["sleep"]]
    products = spread([turn["engine"] / max(turn["compute"], turn["reduce"]) for turn in found["product"]])
    held = bar("backward pass over max(compute, communication), 2 hosts, 1 Gbit/s", spread(ratios), BAR, " ×")
    quartiles = f"{products.lower:.3g} – {products.upper:.3g}"
    print(f"     the same with matrix products: {products.median:.3g} × ({quartiles}), no bar")
    return [held]


def show(what: str, found: Spread, limit: float, unit: str) -> bool:
    held = found.median <= limit
    quartiles = f"{found.lower:.3g} – {found.upper:.3g}"
    print(f"{'ok  ' if held else 'MISS'} {what}: {found.median:.3g}{unit} ({quartiles}), bar ≤ {limit:g}{unit}")
    return held


if __name__ == "__main__":
    if sys.argv[1:2] == ["rank"]:
        rank(int(sys.argv[2]))
    else:
        sys.exit(0 if all(judge(int(sys.argv[1]) if len(sys.argv) > 1 else 5, show)) else 1)
