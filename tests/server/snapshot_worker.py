"""Takes a snapshot in the middle, or goes on from one."""

import sys
from pathlib import Path

import numpy as np

from unisono.server import ParameterServers, connect, ssp

CLOCKS, SHAPE = 12, (60_000,)


def work(servers: ParameterServers, directory: Path, until: int) -> None:
    dense = servers.table("w", SHAPE, dtype=np.int64, consistency=ssp(2))
    sparse = servers.table("e", width=2, update="adam", lr=0.1)
    print(f"worker {servers.rank} begins at {dense.now}", flush=True)
    while dense.now < until:
        dense.pull()
        dense.push(np.full(SHAPE, 10**servers.rank))
        dense.clock()
        if servers.rank == 0 and dense.now == CLOCKS // 2 and until < CLOCKS:
            servers.snapshot(str(directory))
    while sparse.now < until:
        sparse.push([servers.rank, 7], np.full((2, 2), 0.5))
        sparse.clock()
    if until == CLOCKS:
        while dense.pull(info=True)[1].staleness:
            pass
        sparse.pull([7])
        while (dense.pull(info=True)[0] < CLOCKS * sum(10**rank for rank in range(servers.size))).any():
            pass
        np.savez(directory / f"end-{servers.rank}.npz", dense=dense.pull(), sparse=sparse.pull([0, 1, 7]))


if __name__ == "__main__":
    place, what = Path(sys.argv[1]), sys.argv[2]
    with connect(deadline=30) as connected:
        if what == "resume" and connected.rank == 0:
            connected.restore(str(place))
            (place / "restored").touch()
        while what == "resume" and not (place / "restored").exists():
            pass
        work(connected, place, CLOCKS - 3 if what == "begin" else CLOCKS)
