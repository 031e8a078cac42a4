"""Five clocks, and a snapshot of them; or five more by more workers."""

import sys
import time
from pathlib import Path

import numpy as np

from unisono.server import bsp, connect, ssp

if __name__ == "__main__":
    directory, kind, what = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    with connect(deadline=60) as servers:
        if what == "load" and servers.rank == 0:
            servers.restore(str(directory))
            (directory / "loaded").touch()
        while what == "load" and not (directory / "loaded").exists():
            time.sleep(0.01)
        table = servers.table("w", 4, dtype=np.int64, consistency={"bsp": bsp, "ssp": ssp(1)}[kind])
        begin = table.now
        for _ in range(5):
            table.push(np.ones(4))
            table.clock()
            table.pull()
        if what == "save":
            servers.snapshot(str(directory))
        until = time.monotonic() + 60
        while (value := table.pull(info=True)[0][0]) < 5 + 5 * servers.size * (what == "load"):
            assert time.monotonic() < until, value
        print(f"from {begin} to {table.now}: {value}", flush=True)
