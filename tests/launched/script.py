"""A program that does not know who starts it.

python script.py [mpi-before] [mpi-after] [twice] [leave-early] [absent]
"""

import sys
import time

import unisono


def use_mpi() -> int:
    from mpi4py import MPI

    return MPI.COMM_WORLD.allreduce(1)


options = sys.argv[1:]
ranks_by_mpi = [use_mpi()] if "mpi-before" in options else []
comm = unisono.init()
total = comm.allreduce([comm.rank + 1])
if "twice" in options:
    with unisono.init() as again:
        total += again.allreduce([1])
if "mpi-after" in options:
    ranks_by_mpi.append(use_mpi())
comm.close()
sys.stdout.write(f"{comm.rank} of {comm.size}, sum {total}, by mpi {ranks_by_mpi}\n")  # in one piece
sys.stdout.flush()
if "leave-early" in options and comm.rank:
    time.sleep(1)
    sys.stdout.write("stayed\n")
