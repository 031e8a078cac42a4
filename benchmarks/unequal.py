"""An allreduce between hosts of which one has a slow wire, as multiples of what that wire allows. Needs root, iproute2.

python benchmarks/unequal.py [ROUNDS [SLOW]]

A lab of 4 hosts at 1 Gbit/s, of which one (3, or 0) has 250 Mbit/s. `unisono tune` measures it; then, in turns, the
goodput b of a TCP stream from host 0 to host 3, the chosen allreduce of n = 64 MiB and a ring. The bound is n/b: the
slow host has to send its vector and to receive the result. A plain ring needs 1.5 n/b.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
from lab import LARGE, goodput, slowest

import unisono
from unisono.errors import ConfigError
from unisono.lab import Lab

UNISONO = str(Path(sys.executable).parent / "unisono")
BAR = 1.15


def measure(rounds: int) -> None:
    """One rank; the first one prints."""
    with unisono.init() as comm:
        x = np.ones(LARGE // 4, np.float32)
        ratios: dict[str, list[float]] = {"chosen": [], "ring": []}
        for _ in range(rounds):
            bound = LARGE / goodput(comm, LARGE // 4)
            for name, algorithm in (("chosen", None), ("ring", "ring")):
                taken = slowest(comm, lambda named=algorithm: comm.allreduce(x, op="max", out=x, algorithm=named))
                ratios[name].append(taken / bound)
        if comm.rank > 0:
            return
        print(comm.explain("allreduce", LARGE))
        for name, values in ratios.items():
            low, middle, high = np.percentile(values, (25, 50, 75))
            print(f"{name:8} {middle:.3f} x the bound ({low:.3f} to {high:.3f})")
        print("ok" if np.median(ratios["chosen"]) <= BAR else "MISS", f"(bar: {BAR})")


def main(rounds: int = 5, slow: int = 3) -> bool:
    """Is the bar met?"""
    try:
        with (
            tempfile.TemporaryDirectory() as directory,
            Lab(hosts=4, rate="1gbit", rates={f"host{slow}": "250mbit"}, share=[directory]) as lab,
        ):
            model = f"{directory}/model.json"
            tuned = lab.run(UNISONO, "tune", "--out", model, ranks=4, timeout=120)
            words = ("env", f"UNISONO_MODEL={model}", sys.executable, __file__, "--measure", rounds)
            done = lab.run(*words, ranks=4, timeout=60 + 30 * rounds)
    except ConfigError as error:  # says what is missing
        raise SystemExit(f"benchmarks/unequal.py: {error}") from None
    for out in (tuned.stdout, done.stdout):
        print("".join(line.partition("] ")[2] for line in out.splitlines(keepends=True)), end="")
    if tuned.returncode or done.returncode:
        raise SystemExit(tuned.stderr + done.stderr)
    return "MISS" not in done.stdout


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        measure(int(sys.argv[2]))
    else:
        sys.exit(0 if main(*map(int, sys.argv[1:])) else 1)
