"""Allreduces between hosts of a lab, as they are simulated and as they are. Needs root and iproute2.

python benchmarks/simulate_lab.py [HOSTS [RATE [ROUNDS]]]

The machine is measured first: the goodput of one TCP stream, and α as what a round of an empty exchange takes. Then
every algorithm at every size runs once per round; a figure is the median over the rounds of predicted / measured.
"""

from __future__ import annotations

import sys
from statistics import median

import numpy as np
from lab import goodput, slowest

import unisono
from unisono.errors import ConfigError
from unisono.interpret.machine import Link, Machine
from unisono.lab import Lab
from unisono.schedule.catalog import find
from unisono.simulate import simulate

SIZES = (8, 64 << 10, 1 << 20, 4 << 20, 16 << 20)
ALGORITHMS = ("ring", "direct", "circulant", "recursive_doubling", "halving_doubling", "mst", "flat", "exchange")
GAMMA = 1 / 10e9
BAR = 0.15
SEGMENT = 64 << 10
"""What our executor passes on at a time."""


def start_up(comm: unisono.Communicator) -> float:
    """Seconds of a round: an exchange of 8 B around the ring, which has 2(p-1) of them."""
    small = np.ones(2, np.float32)
    seconds = slowest(comm, lambda: comm.allreduce(small, out=small, algorithm="ring"), 100)
    return seconds / (2 * (comm.size - 1))


def measure(rounds: int) -> None:
    """One rank; the first one prints."""
    with unisono.init() as comm:
        p = comm.size
        rate = median(goodput(comm, 32 << 20) for _ in range(3))
        machine = Machine(Link(median(start_up(comm) for _ in range(3)), 1 / rate), GAMMA)
        found: dict[tuple[str, int], list[float]] = {}
        for _ in range(rounds):
            for name in ALGORITHMS:
                for nbytes in SIZES:
                    array = np.ones(max(1, nbytes // 4), np.float32)

                    def call(array: np.ndarray = array, name: str = name) -> object:
                        return comm.allreduce(array, out=array, op="max", algorithm=name)

                    call()
                    seconds = slowest(comm, call, 3 if nbytes >= 1 << 20 else 20)
                    predicted = simulate(find("allreduce", name).schedule(p), nbytes, machine, segment=SEGMENT).time
                    found.setdefault((name, nbytes), []).append(predicted / seconds)
        if comm.rank > 0:
            return
        print(f"{p} hosts, {rate * 8 / 1e6:.0f} Mbit/s, α {machine.link.alpha * 1e6:.0f} µs; predicted / measured")
        print(f"{'':22}" + "".join(f"{size:>12,}" for size in SIZES))
        for name in ALGORITHMS:
            print(f"{name:22}" + "".join(f"{median(found[name, size]):>12.3f}" for size in SIZES))
        errors = [abs(median(ratios) - 1) for ratios in found.values()]
        held = median(errors) <= BAR
        word = "ok  " if held else "MISS"
        print(f"{word} median error {median(errors):.1%} (bar: {BAR:.0%}), largest {max(errors):.1%}")


def main(hosts: str = "4", rate: str = "200mbit", rounds: str = "3") -> bool:
    """Is the bar met?"""
    try:
        with Lab(hosts=int(hosts), rate=rate) as lab:
            done = lab.run(sys.executable, __file__, "--measure", int(rounds), ranks=int(hosts), timeout=170)
    except ConfigError as error:  # says what is missing
        raise SystemExit(f"benchmarks/simulate_lab.py: {error}") from None
    print("".join(line.partition("] ")[2] for line in done.stdout.splitlines(keepends=True)), end="")
    if done.returncode:
        raise SystemExit(done.stderr)
    return "MISS" not in done.stdout


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        measure(int(sys.argv[2]))
    else:
        sys.exit(0 if main(*sys.argv[1:]) else 1)
