"""The ranks of the second host work on when those of the first have ended."""

import time

import numpy as np

from unisono.server import asynchronous, connect

with connect(deadline=30) as servers:
    meet = servers.counters("meet")
    meet.push(np.ones(1))
    meet.clock()
    assert meet.pull() == servers.size
    table = servers.counters("late", consistency=asynchronous)
    if servers.rank:
        time.sleep(1)
    table.push(np.ones(1))
    print("seen", table.pull()[0], flush=True)
