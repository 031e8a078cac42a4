"""Pushes whose sum depends on their order; worker 0 writes what came of them."""

import sys
import time
from pathlib import Path

import numpy as np

from unisono.server import asynchronous, bsp, connect, ssp

CLOCKS, ROWS = 12, 40

if __name__ == "__main__":
    directory, kind, seed = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    consistency = {"bsp": bsp, "ssp": ssp(2), "asynchronous": asynchronous}[kind]
    with connect(deadline=30) as servers:
        random = np.random.default_rng([servers.rank, seed])
        dense = servers.table("w", 30_000, update="momentum", lr=0.1, consistency=consistency)
        sparse = servers.table("e", width=3, update="adagrad", lr=0.1, consistency=consistency)
        for _ in range(CLOCKS):
            time.sleep(random.exponential(0.003))
            scale = 10.0 ** random.integers(-6, 6)
            dense.push(random.standard_normal(30_000) * scale)
            sparse.push(np.arange(ROWS), random.standard_normal((ROWS, 3)) * scale)
            dense.clock()
            sparse.clock()
        (directory / f"done-{servers.rank}").touch()
        while len(list(directory.glob("done-*"))) < servers.size:
            time.sleep(0.01)
        if servers.rank == 0:
            seen: dict[str, np.ndarray] = {}
            for name, pull in {
                "dense": lambda: dense.pull(info=True),
                "sparse": lambda: sparse.pull(np.arange(ROWS), info=True),
            }.items():
                seen[name], read = pull()
                while read.staleness:  # a shard has not heard of the last clocks
                    seen[name], read = pull()
            np.savez(directory / "seen.npz", **seen)
