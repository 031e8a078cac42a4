"""Takes a snapshot of this value, or says what it finds in one."""

import sys

import numpy as np

from unisono.errors import ConfigError
from unisono.server import asynchronous, connect

SHAPE = (60_000,)  # on all shards

if __name__ == "__main__":
    with connect(deadline=30) as servers:
        directory, *value = sys.argv[1:]
        try:
            if not value:
                servers.restore(directory)
            table = servers.table("w", SHAPE, dtype=np.int64, consistency=asynchronous)
            if value:
                table.push(np.full(SHAPE, int(value[0])))
                servers.snapshot(directory)
            print("found", np.unique(table.pull()), flush=True)
        except ConfigError as error:
            print("refused:", error, flush=True)
