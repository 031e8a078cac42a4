"""Ranks for programs that use torch: forked from a server that has imported it once, and nothing else."""

from __future__ import annotations

import multiprocessing
import sys
import tempfile
import traceback
from collections.abc import Callable
from datetime import timedelta
from multiprocessing.connection import Connection, wait
from pathlib import Path
from time import monotonic
from typing import Any

PRELOADED = ["torch", "torch.distributed.fsdp", "torch.distributed.tensor.parallel", "torch.distributed.pipelining"]
SECONDS = 120.0


def run(program: Callable[..., Any], ranks: int, *arguments: Any, dies: int | None = None) -> list[Any]:
    """What program(rank, *arguments) gives on every rank, in a process group of unisono's.

    One rank may be meant to die; it gives None.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    with tempfile.TemporaryDirectory() as folder:
        store = f"file://{folder}/store"
        pipes, processes = [], []
        for rank in range(ranks):
            ours, theirs = context.Pipe()
            place = (rank, ranks, store, theirs)
            processes.append(context.Process(target=_rank, args=(program, arguments, *place), daemon=True))
            processes[-1].start()
            theirs.close()
            pipes.append(ours)
        try:
            return _collect(pipes, dies)
        finally:
            for process in processes:
                process.kill()
                process.join()


def _collect(pipes: list[Any], dies: int | None) -> list[Any]:
    results: dict[int, Any] = {} if dies is None else {dies: None}
    until = monotonic() + SECONDS
    while missing := [rank for rank in range(len(pipes)) if rank not in results]:
        ready = wait([pipes[rank] for rank in missing], max(0.0, until - monotonic()))
        assert ready, f"ranks {missing} were not through after {SECONDS:g} s"
        for rank in missing:
            if pipes[rank] in ready:
                try:
                    well, result = pipes[rank].recv()
                except EOFError:
                    well, result = False, "it ended without a word"
                assert well, f"rank {rank}: {result}"
                results[rank] = result
    return [results[rank] for rank in range(len(pipes))]


def _rank(
    program: Callable[..., Any], arguments: tuple[Any, ...], rank: int, ranks: int, store: str, pipe: Connection
) -> None:
    sys.path.insert(0, str(Path(__file__).parents[2]))
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    try:
        dist.init_process_group(
            "unisono", init_method=store, rank=rank, world_size=ranks, timeout=timedelta(seconds=SECONDS)
        )
        result = True, program(rank, *arguments)
        if dist.is_initialized():
            dist.destroy_process_group()
    except BaseException:
        result = False, traceback.format_exc()
    pipe.send(result)
