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
    while servers.rank and not table.pull()[0]:
        time.sleep(0.01)
    if servers.rank:
        time.sleep(1)  # it is alone by now; earlier is right as well
    table.push(np.ones(1))
    print("seen", table.pull()[0], flush=True)
