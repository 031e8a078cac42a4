"""What one rank of any contestant executes. Run by path where unisono is not installed: it needs NumPy and one library.

    python rank.py --library mpi|torch|unisono|unisono-empty --cells COLLECTIVE:VARIANT:BYTES,… --budget SECONDS --out F

BYTES is the whole float32 vector: what is reduced or broadcast, or what the parts of all ranks are together.

Each call is timed from Python. Its time is that of the slowest rank. Collectives in which every rank needs every other
are called one after the other; before a rooted call, which some ranks leave early, and before a fresh one there is a
barrier of the same library that is not timed. Fresh: every rank rewrites its vector before each call, so that no cache
still has what other ranks have left there. torch is started without a launcher, so --rank, --ranks and --store (a file
that is not there yet) say where its ranks meet.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

Call = Callable[[], Any]
ROOTED = ("broadcast", "reduce", "scatter", "gather")
REDUCING = ("allreduce", "reduce", "reduce_scatter")
FEWEST, MOST = 6, 4000  # calls that are timed in a cell
FIRST_GUESS = 0.05  # seconds
WARM_UP, WARM_UP_BYTES = 0.1, 1024  # without it, the first cell would pay for the start of the processes
now = time.perf_counter_ns


class Mpi:
    """Any MPI, through mpi4py."""

    def __init__(self, meeting: dict[str, Any]) -> None:
        self.mpi = import_module("mpi4py.MPI")
        self.world = self.mpi.COMM_WORLD
        self.rank, self.size = self.world.rank, self.world.size
        self.version = self.mpi.Get_library_version().split("\n")[0].strip("\0 ")
        self.barrier = self.world.Barrier

    def maximum(self, values: Any) -> Any:
        result = np.empty_like(values)
        self.world.Allreduce(values, result, self.mpi.MAX)
        return result

    def empty(self, n: int) -> Any:
        return np.empty(n, np.float32)

    def call(self, collective: str, x: Any, out: Any) -> Call:
        world, plus, at_root = self.world, self.mpi.SUM, self.rank == 0
        given = self.mpi.IN_PLACE if x is out else x
        return {
            "allreduce": lambda: world.Allreduce(given, out, plus),
            "broadcast": lambda: world.Bcast(x, 0),
            "reduce": lambda: world.Reduce(x, out, plus, 0),
            "allgather": lambda: world.Allgather(x, out),
            "reduce_scatter": lambda: world.Reduce_scatter_block(x, out, plus),
            "scatter": (lambda: world.Scatter(x, out, 0)) if at_root else (lambda: world.Scatter(None, out, 0)),
            "gather": (lambda: world.Gather(x, out, 0)) if at_root else (lambda: world.Gather(x, None, 0)),
            "barrier": lambda: world.Barrier(),  # as the others are called
        }[collective]

    def algorithm(self) -> str | None:
        return None

    def close(self) -> None:
        self.barrier()


class Torch:
    """gloo, through torch.distributed. Its reduce is in place only, and so is its allreduce: there, oop has a copy."""

    def __init__(self, meeting: dict[str, Any]) -> None:
        torch = self.torch = import_module("torch")
        self.distributed = import_module("torch.distributed")
        torch.set_num_threads(1)
        self.distributed.init_process_group("gloo", **meeting)
        self.rank, self.size = self.distributed.get_rank(), self.distributed.get_world_size()
        self.version = f"torch {torch.__version__} gloo"
        self.barrier = self.distributed.barrier

    def maximum(self, values: Any) -> Any:
        result = self.torch.from_numpy(values.copy())
        self.distributed.all_reduce(result, op=self.distributed.ReduceOp.MAX)
        return result.numpy()

    def empty(self, n: int) -> Any:
        return np.empty(n, np.float32)

    def call(self, collective: str, x: Any, out: Any) -> Call:
        d, at_root, in_place = self.distributed, self.rank == 0, x is out
        given, result = self.torch.from_numpy(x), self.torch.from_numpy(out)
        parts = list((given if collective == "scatter" else result).chunk(self.size)) if at_root else None

        def allreduce_copied() -> None:
            result.copy_(given)
            d.all_reduce(result)

        return {
            "allreduce": (lambda: d.all_reduce(result)) if in_place else allreduce_copied,
            "broadcast": lambda: d.broadcast(given, 0),
            "reduce": lambda: d.reduce(result, 0),
            "allgather": lambda: d.all_gather_into_tensor(result, given),
            "reduce_scatter": lambda: d.reduce_scatter_tensor(result, given),
            "scatter": lambda: d.scatter(result, parts, 0),
            "gather": lambda: d.gather(given, parts, 0),
            "barrier": lambda: d.barrier(),
        }[collective]

    def algorithm(self) -> str | None:
        return None

    def close(self) -> None:
        self.barrier()
        self.distributed.destroy_process_group()


class Unisono:
    """Ours, on ordinary arrays."""

    def __init__(self, meeting: dict[str, Any]) -> None:
        unisono = import_module("unisono")
        self.comm = unisono.init()
        self.rank, self.size = self.comm.rank, self.comm.size
        self.version = f"unisono {unisono.__version__}"
        self.barrier = self.comm.barrier

    def maximum(self, values: Any) -> Any:
        return self.comm.allreduce(values, op="max")

    def empty(self, n: int) -> Any:
        return np.empty(n, np.float32)

    def call(self, collective: str, x: Any, out: Any) -> Call:
        comm, at_root = self.comm, self.rank == 0
        return {
            "allreduce": lambda: comm.allreduce(x, out=out),
            "broadcast": lambda: comm.broadcast(x, root=0),
            "reduce": lambda: comm.reduce(x, out=out, root=0),
            "allgather": lambda: comm.allgather(x, out=out),
            "reduce_scatter": lambda: comm.reduce_scatter(x, out=out),
            "scatter": (lambda: comm.scatter(x, out=out, root=0))
            if at_root
            else (lambda: comm.scatter(None, out=out, root=0)),
            "gather": (lambda: comm.gather(x, out=out, root=0)) if at_root else (lambda: comm.gather(x, root=0)),
            "barrier": lambda: comm.barrier(),
        }[collective]

    def algorithm(self) -> str | None:
        return str(self.comm.stats()["recent"][-1]["algorithm"])

    def close(self) -> None:
        self.barrier()
        self.comm.close()


class UnisonoEmpty(Unisono):
    """Ours, on arrays that the ranks of a host share."""

    def empty(self, n: int) -> Any:
        return self.comm.empty(n, np.float32)


Library = Mpi | Torch | Unisono
LIBRARIES: dict[str, Callable[[dict[str, Any]], Library]] = {
    "mpi": Mpi,
    "torch": Torch,
    "unisono": Unisono,
    "unisono-empty": UnisonoEmpty,
}


def arrays(library: Library, collective: str, variant: str, nbytes: int) -> tuple[Any, Any]:
    """What a call is given and what it fills; one array where it works in place."""
    in_parts = collective in ("allgather", "reduce_scatter", "scatter", "gather")
    part = max(nbytes // 4 // library.size, 1)
    whole = part * library.size if in_parts else max(nbytes // 4, 1)
    in_place = collective in ("broadcast", "barrier") or (collective == "allreduce" and variant != "oop")
    if in_place or (collective == "reduce" and isinstance(library, Torch)):
        both = library.empty(whole)
        return both, both
    x = library.empty(part if collective in ("allgather", "gather") else whole)
    return x, library.empty(part if collective in ("reduce_scatter", "scatter") else whole)


def expect(collective: str, rank: int, p: int, x: Any, out: Any) -> Any:
    """Fill both with what shows an error, for a call from root 0. What the call has to leave; None: anything."""
    places = np.resize(np.arange(13, dtype=np.float32), max(len(x), len(out)))  # sums of these are exact
    out[:] = -1
    if collective in REDUCING:
        x[:] = places + rank + 1
        total = p * places + p * (p + 1) / 2
        here = slice(rank * len(out), (rank + 1) * len(out)) if collective == "reduce_scatter" else slice(None)
        return None if collective == "reduce" and rank else total[here]
    if collective == "broadcast":
        x[:] = places + 7 if rank == 0 else 0
        return places + 7
    by_rank = np.concatenate([places[: len(places) // p] + r + 1 for r in range(p)])
    if collective == "scatter":
        x[:] = by_rank
        return places[: len(out)] + rank + 1
    x[:] = places[: len(x)] + rank + 1
    return None if collective == "gather" and rank else by_rank


def check(library: Library, collective: str, call: Call, x: Any, out: Any) -> None:
    """A fast wrong answer is not a time."""
    if collective == "barrier":
        call()
        return
    expected = expect(collective, library.rank, library.size, x, out)
    library.barrier()
    call()
    wrong = expected is not None and not np.array_equal(out, expected)
    if library.maximum(np.array([float(wrong)]))[0]:  # all leave together: none waits for another
        raise SystemExit(f"{library.version}: {collective} is {'wrong' if wrong else 'right'} on rank {library.rank}")
    x[:] = 0
    out[:] = 0  # sums of zeros stay what they are


def agree(library: Library, seconds: float, limit: int) -> int:
    """How many calls fit in; ranks have to make the same number of them."""
    shortest = -library.maximum(np.array([-seconds]))[0]
    return int(max(1, min(limit, shortest)))


def measure(library: Library, collective: str, variant: str, nbytes: int, budget: float) -> dict[str, Any]:
    """One cell, in microseconds."""
    x, out = arrays(library, collective, variant, nbytes)
    call = library.call(collective, x, out)
    check(library, collective, call, x, out)
    fresh = variant == "fresh"
    apart = fresh or collective in ROOTED

    def loop(times: Any) -> int:
        library.barrier()
        begun = now()
        for i in range(len(times)):
            if fresh:
                x.fill(1)
            if apart:
                library.barrier()
            start = now()
            call()
            times[i] = now() - start
        return now() - begun

    guess = loop(np.zeros(1, np.int64))
    few = agree(library, FIRST_GUESS * 1e9 / guess, 50)
    each = loop(np.zeros(few, np.int64)) / few
    times = np.zeros(max(FEWEST, agree(library, budget * 1e9 / each, MOST)), np.int64)
    whole = loop(times)
    algorithm = library.algorithm()
    library.barrier()
    slowest = library.maximum(times) / 1e3
    whole_us = float(library.maximum(np.array([whole]))[0]) / 1e3
    return {
        "iterations": len(times),
        "median_us": float(np.median(slowest)),
        "p10_us": float(np.percentile(slowest, 10)),
        "p90_us": float(np.percentile(slowest, 90)),
        "loop_us": None if apart else whole_us / len(times),
        "algorithm": algorithm,
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    for name, kind in {"library": str, "cells": str, "budget": float, "out": str}.items():
        parser.add_argument(f"--{name}", type=kind, required=True)
    for name, kind in {"rank": int, "ranks": int, "store": str}.items():
        parser.add_argument(f"--{name}", type=kind)
    given = parser.parse_args()
    meeting = {"init_method": f"file://{given.store}", "rank": given.rank, "world_size": given.ranks}
    library = LIBRARIES[given.library](meeting)
    cells = [cell.split(":") for cell in given.cells.split(",")]
    measure(library, cells[0][0], cells[0][1], WARM_UP_BYTES, WARM_UP)
    for collective, variant, nbytes in cells:
        found = measure(library, collective, variant, int(nbytes), given.budget)
        if library.rank == 0:
            facts = {"collective": collective, "variant": variant, "bytes": int(nbytes), "ranks": library.size}
            with open(given.out, "a", encoding="utf-8") as file:
                file.write(json.dumps(facts | found | {"version": library.version}) + "\n")
    library.close()


if __name__ == "__main__":
    main()
