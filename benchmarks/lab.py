"""Collectives between hosts of a lab, as multiples of what the wire allows. Needs root and iproute2.

python benchmarks/lab.py [HOSTS [RANKS [ROUNDS]]]

Every round measures the goodput B of one TCP stream, and then each call once per round; a figure is the median over the
rounds of measured time / bound, with the quartiles. Bounds for n bytes, p ranks of one host each: n·2(p-1)/p/B for an
allreduce, n·(p-1)/p/B for allgather and reduce_scatter, n/B for a broadcast. With several ranks on a host, p is the
number of hosts: that is what passes between them.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable
from time import perf_counter

import numpy as np

import unisono
from unisono.errors import ConfigError
from unisono.lab import Lab

MB = 1 << 20
LARGE, SMALL = 64 * MB, 8
PORT = 5201
SMALL_CALLS = 200


def goodput(comm: unisono.Communicator, nbytes: int) -> float:
    """Bytes per second of one stream from the first rank to the last one, which is on another host."""
    last = comm.size - 1
    rate = np.zeros(1)
    with socket.create_server(("", PORT)) if comm.rank == last else socket.socket() as door:
        comm.barrier()
        if comm.rank == 0:
            with socket.create_connection((comm.hosts[last], PORT)) as stream:
                stream.sendall(bytes(nbytes))
        elif comm.rank == last:
            with door.accept()[0] as stream:
                buffer = bytearray(MB)
                first, began = stream.recv_into(buffer), perf_counter()
                received = first
                while count := stream.recv_into(buffer):
                    received += count
                rate[0] = (received - first) / (perf_counter() - began)
        comm.barrier()
    comm.broadcast(rate, root=last)
    return float(rate[0])


def slowest(comm: unisono.Communicator, call: Callable[[], object], times: int = 1) -> float:
    """Median over the calls of the seconds that the slowest rank took."""
    seconds = np.empty(times)
    comm.barrier()
    for i in range(times):
        began = perf_counter()
        call()
        seconds[i] = perf_counter() - began
    return float(np.median(comm.allreduce(seconds, op="max")))


def cells(comm: unisono.Communicator) -> dict[str, tuple[Callable[[], object], float]]:
    """The calls, and their bounds in vectors that pass through a wire."""
    hosts = len(set(comm.hosts))
    part = (hosts - 1) / hosts
    whole = np.ones(LARGE // 4, np.float32)
    mine = np.ones(LARGE // 4 // comm.size, np.float32)
    return {
        "allreduce": (lambda: comm.allreduce(whole, out=whole, op="max"), 2 * part),
        "allgather": (lambda: comm.allgather(mine, out=whole), part),
        "reduce_scatter": (lambda: comm.reduce_scatter(whole, out=mine, op="max"), part),
        "broadcast": (lambda: comm.broadcast(whole, root=0), 1.0),
    }


def measure(rounds: int) -> None:
    """One rank; the first one prints."""
    with unisono.init() as comm:
        calls = cells(comm)
        small = np.ones(SMALL // 4, np.float32)
        ratios: dict[str, list[float]] = {name: [] for name in calls}
        rates, milliseconds = [], []
        for _ in range(rounds):
            rates.append(goodput(comm, LARGE))
            for name, (call, bound) in calls.items():
                ratios[name].append(slowest(comm, call) / (bound * LARGE / rates[-1]))
            milliseconds.append(1e3 * slowest(comm, lambda: comm.allreduce(small, out=small), SMALL_CALLS))
        if comm.rank > 0:
            return
        print(f"{comm.size} ranks on {len(set(comm.hosts))} hosts, {rounds} rounds, ran {comm.stats()['algorithms']}")
        print(f"one TCP stream  {np.median(rates) / 1e6:7.1f} MB/s")
        for name, values in ratios.items():
            low, middle, high = np.percentile(values, (25, 50, 75))
            print(f"{name:14} 64 MiB {middle:6.3f} x the bound ({low:.3f} to {high:.3f})")
        print(f"allreduce         8 B {np.median(milliseconds):6.3f} ms")


def main(hosts: int = 4, ranks: int = 4, rounds: int = 9) -> None:
    try:
        with Lab(hosts=hosts, rate="1gbit") as lab:
            done = lab.run(sys.executable, __file__, "--measure", rounds, ranks=ranks, timeout=60 + 30 * rounds)
    except ConfigError as error:  # says what is missing
        raise SystemExit(f"benchmarks/lab.py: {error}") from None
    print("".join(line.partition("] ")[2] for line in done.stdout.splitlines(keepends=True)), end="")
    if done.returncode:
        raise SystemExit(done.stderr)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        measure(int(sys.argv[2]))
    else:
        main(*map(int, sys.argv[1:]))
