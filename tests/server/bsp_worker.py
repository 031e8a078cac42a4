"""Each worker's pushes under bsp; worker 0 writes what came of them."""

import sys

import numpy as np

from unisono.server import bsp, connect

CLOCKS, SHAPE, WIDTH, ROWS = 6, (700, 130), 3, 50
UPDATES = {"add": {}, "sgd": {"lr": 0.1}, "momentum": {"lr": 0.1}, "adagrad": {"lr": 0.1}, "adam": {"lr": 0.01}}


def gradient(rank: int, clock: int, part: int) -> np.ndarray:
    return np.random.default_rng([rank, clock, part]).standard_normal(SHAPE).astype(np.float32)


def rows(rank: int, clock: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng([rank, clock, 99])
    return random.permutation(ROWS)[:20], random.standard_normal((20, WIDTH)).astype(np.float32)


if __name__ == "__main__":
    with connect(deadline=30) as servers:
        dense = {x: servers.table(x, SHAPE, update=x, consistency=bsp, **o) for x, o in UPDATES.items()}
        sparse = {x: servers.table("s" + x, width=WIDTH, update=x, consistency=bsp, **o) for x, o in UPDATES.items()}
        seen = []
        for clock in range(CLOCKS):
            for table in dense.values():
                for part in range(2):
                    table.push(gradient(servers.rank, clock, part))
                table.clock()
            for table in sparse.values():
                table.push(*rows(servers.rank, clock))
                table.clock()
            state = {name: table.pull() for name, table in dense.items()}
            state |= {"s" + name: table.pull(np.arange(ROWS)) for name, table in sparse.items()}
            seen.append(state)
        flat = {f"{clock} {name}": array for clock, state in enumerate(seen) for name, array in state.items()}
        np.savez(f"{sys.argv[1]}/{servers.rank}.npz", **flat)
