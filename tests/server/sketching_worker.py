"""Workers that count items in one CountMin sketch, and live to the end; worker 0 writes what it has then."""

import sys
import time
from pathlib import Path

import numpy as np

from unisono.server import asynchronous, connect

DEPTH, CELLS, ITEMS = 3, 64, 20


def exact_cells(item: int) -> list[int]:
    """The same in every process."""
    return [row * CELLS + (item * (2 * row + 7) + row * row) % CELLS for row in range(DEPTH)]


if __name__ == "__main__":
    directory = Path(sys.argv[1])
    with connect(deadline=30) as servers:
        sketch = servers.table("sketch", width=1, dtype=np.int64, consistency=asynchronous)
        items = np.random.default_rng(servers.rank).integers(0, ITEMS, 300)
        np.save(directory / f"{servers.rank}.npy", items)
        handles = []
        for item in items:
            if item % 2:
                sketch.push(exact_cells(item), np.ones((DEPTH, 1)))
            else:
                handles.append(sketch.push_async(exact_cells(item), np.ones((DEPTH, 1))))
        for handle in handles:
            handle.wait()
        (directory / f"done-{servers.rank}").touch()
        while len(list(directory.glob("done-*"))) < servers.size:
            time.sleep(0.01)
        if servers.rank == 0:
            np.save(directory / "seen.npy", sketch.pull(np.arange(DEPTH * CELLS)).ravel())
