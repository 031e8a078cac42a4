"""Loads these snapshots, one after the other, and says what there is in the end."""

import sys

import numpy as np

from unisono.errors import ConfigError
from unisono.server import asynchronous, connect

SHAPE = (60_000,)

if __name__ == "__main__":
    with connect(deadline=30) as servers:
        for directory in sys.argv[1:]:
            try:
                servers.restore(directory)
            except ConfigError as error:
                print("refused:", error, flush=True)
        table = servers.table("w", SHAPE, dtype=np.int64, consistency=asynchronous)
        print("found", np.unique(table.pull()), flush=True)
