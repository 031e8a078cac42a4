"""Counts while its processes are killed: rank 0 waits and reads; every other rank starts a process that counts, kills
it at a random moment, and starts the next one, which joins as another incarnation of the same worker.

What a process has issued and what was acknowledged is in a file that outlives it.
"""

import mmap
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from unisono.server import asynchronous, connect, ssp

DEPTH, CELLS, ITEMS = 3, 64, 20


def cells(item: int) -> list[int]:
    """Of a CountMin sketch."""
    return [row * CELLS + hash((row, item)) % CELLS for row in range(DEPTH)]


class Ledger:
    """Issued and acknowledged, of counters, clocks and sketched items."""

    def __init__(self, path: Path) -> None:
        path.touch()
        with path.open("r+b") as file:
            file.truncate(8 * (4 + 2 * ITEMS))
            self.numbers = np.frombuffer(mmap.mmap(file.fileno(), 0), np.int64)


def count(directory: Path) -> None:
    with connect(deadline=60) as servers:
        ledger = Ledger(directory / f"{servers.rank}").numbers
        counters = servers.counters("counters", servers.size, consistency=asynchronous)
        clocked = servers.counters("clocked", 30_000, consistency=ssp(100))  # on all shards
        sketch = servers.table("sketch", width=1, dtype=np.int64, consistency=asynchronous)
        one = np.zeros(servers.size, np.int64)
        one[servers.rank] = 1
        while True:
            ledger[0] += 1
            counters.push(one)
            ledger[1] += 1
            item = random.randrange(ITEMS)
            ledger[4 + item] += 1
            sketch.push(cells(item), np.ones((DEPTH, 1)))
            ledger[4 + ITEMS + item] += 1
            clocked.push(np.full(30_000, 1))
            ledger[2] += 1
            clocked.clock()
            ledger[3] += 1


def disturb(directory: Path, rank: int, lives: int) -> None:
    random.seed(f"{directory} {rank}")
    for _ in range(lives):
        child = subprocess.Popen([sys.executable, __file__, str(directory), "0", "count"])
        ledger = Ledger(directory / str(rank)).numbers
        before, until = ledger[0], time.monotonic() + 40
        while ledger[0] < before + 3 and time.monotonic() < until:  # it is at work
            time.sleep(0.005)
        time.sleep(random.uniform(0, 0.05))
        child.send_signal(signal.SIGKILL)
        child.wait()


def observe(directory: Path) -> None:
    with connect(deadline=60) as servers:
        counters = servers.counters("counters", servers.size, consistency=asynchronous)
        clocked = servers.counters("clocked", 30_000, consistency=ssp(100))
        sketch = servers.table("sketch", width=1, dtype=np.int64, consistency=asynchronous)
        until = time.monotonic() + 90
        while any(not (directory / f"done-{rank}").exists() for rank in range(1, servers.size)):
            assert time.monotonic() < until
            clocked.clock()
            time.sleep(0.01)
        while len(servers.status()["members"]) > 1:
            assert time.monotonic() < until
            time.sleep(0.05)
        clocked.clock()
        np.savez(
            directory / "seen.npz",
            counters=counters.pull(),
            clocked=clocked.pull(),
            sketch=sketch.pull(np.arange(DEPTH * CELLS)).ravel(),
        )


if __name__ == "__main__":
    place, lives, *what = sys.argv[1:]
    if what:
        count(Path(place))
    elif os.environ["UNISONO_RANK"] == "0":
        observe(Path(place))
    else:
        disturb(Path(place), int(os.environ["UNISONO_RANK"]), int(lives))
        (Path(place) / f"done-{os.environ['UNISONO_RANK']}").touch()
