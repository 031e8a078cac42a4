"""Rank 1 ends before it comes to the servers; the others go on without it."""

import os
import sys

import numpy as np

from unisono.server import bsp, connect, ssp

SHAPE = (100_000,)  # on all shards

if __name__ == "__main__":
    if os.environ["UNISONO_RANK"] == "1":
        sys.exit(3)
    with connect(deadline=60) as servers:
        table = servers.table("w", SHAPE, consistency={"bsp": bsp, "ssp": ssp(1)}[sys.argv[1]])
        for _ in range(6):
            table.push(np.ones(SHAPE))
            table.clock()
            table.pull()
        assert "1" not in servers.status()["members"]
        print("went on", flush=True)
