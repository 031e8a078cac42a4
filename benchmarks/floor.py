"""How far an allreduce of 8 bytes is from the least that the machine can do, with as many ranks as cores and with more.

python benchmarks/floor.py [ROUNDS] [--ranks 2,4,8]

The floor is reference/floor.c, which is compiled for it: ranks of Python that write a cache line each, read
everybody's, and give their core away while they wait. Floor and ours run in turns, each in its own processes. A call's
time is that of its slowest rank, from Python; a figure is the median over calls, and over rounds. Run it on a quiet
machine.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib
import json
import mmap
import os
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np

from unisono.bench.contestants import RANK

SOURCE = Path(__file__).parent / "reference" / "floor.c"
CALLS, FIRST = 4000, 1000
LOOKS = {False: 2000, True: 20}  # before a core is given away: as many ranks as cores, or more


def compiled(directory: Path) -> Path:
    library = directory / "floor.so"
    include = sysconfig.get_paths()["include"]
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", f"-I{include}", SOURCE, "-o", library], check=True)
    return library


def floor_rank(library: str, board: str, rank: int, ranks: int, out: str) -> None:
    """One rank; leaves its times in a file."""
    sys.path.insert(0, str(Path(library).parent))
    floor = importlib.import_module("floor")
    with open(board, "r+b") as file:
        shared = mmap.mmap(file.fileno(), 0)
    address = ctypes.addressof(ctypes.c_char.from_buffer(shared))
    floor.join(address, rank, ranks, LOOKS[ranks > (os.cpu_count() or 1)])
    x, now = np.full(2, rank + 1, np.float32), time.perf_counter_ns
    floor.allreduce(x)
    assert x[0] == ranks * (ranks + 1) / 2
    x[:] = 0
    times = np.zeros(FIRST + CALLS, np.int64)
    for i in range(len(times)):
        start = now()
        floor.allreduce(x)
        times[i] = now() - start
    np.save(out, times[FIRST:])


def time_floor(library: Path, ranks: int, directory: Path) -> float:
    """Microseconds."""
    board = directory / "board"
    board.write_bytes(bytes(1 << 16))
    outs = [str(directory / f"{rank}.npy") for rank in range(ranks)]
    each = [[sys.executable, __file__, "--one", library, board, str(r), str(ranks), outs[r]] for r in range(ranks)]
    processes = [subprocess.Popen(command) for command in each]
    if any(process.wait(timeout=60) for process in processes):
        sys.exit("a rank of the floor failed")
    return float(np.median(np.max([np.load(out) for out in outs], axis=0))) / 1e3


def time_ours(ranks: int, directory: Path) -> float:
    """Microseconds."""
    out = directory / "ours"
    out.unlink(missing_ok=True)
    run = [Path(sys.executable).with_name("unisono"), "run", "-n", str(ranks), RANK, "--library", "unisono"]
    cell = ["--cells", "allreduce:in-place:8", "--budget", "0.1", "--out", out]
    subprocess.run([*run, *cell], check=True, timeout=60)
    return float(json.loads(out.read_text())["median_us"])


def main(rounds: int, numbers_of_ranks: list[int]) -> None:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        library = compiled(directory)
        for ranks in numbers_of_ranks:
            pairs = [(time_floor(library, ranks, directory), time_ours(ranks, directory)) for _ in range(rounds)]
            floor, ours = (median(column) for column in zip(*pairs, strict=True))
            ratio = median([our / least for least, our in pairs])
            print(f"{ranks} ranks: floor {floor:.2f} µs, ours {ours:.2f} µs, {ratio:.2f} × the floor", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        library, board, rank, ranks, out = sys.argv[2:]
        floor_rank(library, board, int(rank), int(ranks), out)
    else:
        parser = argparse.ArgumentParser()
        parser.add_argument("rounds", type=int, nargs="?", default=5)
        parser.add_argument("--ranks", default="2,4,8")
        given = parser.parse_args()
        main(given.rounds, [int(text) for text in given.ranks.split(",")])
