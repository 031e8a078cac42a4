"""Reads under adversarial delays: every worker writes what it read, and what it was told about it.

A worker adds 1 to its own element in every clock: what a read shows is how many clocks of whom are in it. Its
connections may break meanwhile, some rows are read now and then only, and servers stand still for a while.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from threading import Event, Thread

import numpy as np
from failing_worker import break_connections, server_pids

from unisono.server import connect, essp, ssp


@contextmanager
def stopping_servers(seed: int) -> Iterator[None]:
    """One at a time, again and again."""
    over, random, pids = Event(), np.random.default_rng(seed), server_pids()

    def stop() -> None:
        while not over.wait(random.exponential(0.03)):
            pid = int(random.choice(pids))
            os.kill(pid, signal.SIGSTOP)
            over.wait(random.uniform(0.005, 0.05))
            os.kill(pid, signal.SIGCONT)

    thread = Thread(target=stop)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


if __name__ == "__main__":
    directory, kind, bound, seed, clocks, breaks = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
    with connect(deadline=60) as servers, stopping_servers(seed) if servers.rank == 0 else nullcontext():
        random = np.random.default_rng([seed, servers.rank])
        consistency = {"ssp": ssp, "essp": essp}[kind](bound)
        # An element of each worker on every shard.
        dense = servers.table("w", (servers.size, 40_000), dtype=np.int64, consistency=consistency)
        sparse = servers.table("e", width=1, dtype=np.int64, consistency=consistency)
        step = np.zeros(dense.shape, np.int64)
        step[servers.rank] = 1
        reads = []
        slow = random.integers(0, 2) * 0.01
        for clock in range(clocks):
            time.sleep(random.exponential(0.002) + slow * random.integers(0, 2))
            info = random.integers(0, 3) == 0
            if info:
                values, read = dense.pull(info=True)
                extras = [read.staleness, read.missing, read.extra]
            else:
                values, extras = dense.pull(), None
            if breaks and random.integers(0, 8) == 0:
                break_connections(int(random.integers(0, 3)))
            if clock == 0 or random.integers(0, 3):  # of a third of the clocks, only others
                rows = sparse.pull(np.arange(servers.size)).ravel()
            else:
                sparse.pull(random.integers(100, 110, 3))
                rows = None
            reads.append(
                [clock, values.min(1).tolist(), values.max(1).tolist(), None if rows is None else rows.tolist(), extras]
            )
            dense.push(step)
            sparse.push([servers.rank], [[1]])
            dense.clock()
            sparse.clock()
        summary = [dense.reads.worst, sparse.reads.worst, dense.reads.count, dense.reads.cached]
        with open(f"{directory}/{servers.rank}.json", "w") as file:
            json.dump({"reads": reads, "summary": summary}, file)
