"""Ranks that die, leave, differ or are late."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from tests.torch.programs.models import batches, model
from tests.torch.programs.raised import raised


def stay_until_told(folder: str, *ranks: int | str) -> None:
    end = time.monotonic() + 60
    while not all(Path(folder, str(rank)).exists() for rank in ranks):
        assert time.monotonic() < end, f"not all of {ranks} were told"
        time.sleep(0.01)


def one_dies(rank: int, how: str, folder: str) -> None:
    """The last rank is killed; the others hear of it in the call that they make."""
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    last = dist.get_world_size() - 1
    net = DistributedDataParallel(model()) if how == "backward" else None
    x = torch.ones(1000)
    dist.all_reduce(x)
    loss = net(batches(1, 1)[0, 0]).sum() if net else None
    if rank == last:
        stay_until_told(
            folder, *(f"begun-{other}" for other in range(last))
        )  # or they would lose it in what was before
        os.kill(os.getpid(), signal.SIGKILL)
    Path(folder, f"begun-{rank}").touch()
    with raised("PeerLost", f"rank {last}", "failures.py"):
        if how == "call":
            dist.all_reduce(x)
        elif how == "work":
            dist.all_reduce(x, async_op=True).wait()
        elif how == "future":
            dist.all_reduce(x, async_op=True).get_future().wait()
        elif how == "backward":
            loss.backward()
        elif how == "recv":
            dist.recv(x, last)
        elif how == "monitored_barrier":
            dist.monitored_barrier()
    Path(folder, str(rank)).touch()
    stay_until_told(folder, *range(last))  # who is late could hear of the end of rank 0, too
    dist.destroy_process_group()


def one_has_left(rank: int, how: str, folder: str) -> None:
    """The last rank has destroyed its group, and lives on; nobody has exchanged a message with it before."""
    import torch
    import torch.distributed as dist

    last = dist.get_world_size() - 1
    dist.barrier()
    if rank == last:
        dist.destroy_process_group()
        stay_until_told(folder, 0)
        return
    with raised("PeerLost", f"rank {last}"):
        if how == "recv":
            dist.recv(torch.ones(1), last)
        elif how == "recv from any":
            dist.recv(torch.ones(1))
        elif how == "send":
            dist.send(torch.ones(100_000), last)
        elif how == "new_group":
            dist.new_group([rank, last])
        elif how == "call":
            dist.all_reduce(torch.ones(3))
    Path(folder, str(rank)).touch()
    dist.destroy_process_group()


def one_dies_before_a_new_group(rank: int, dead: int, folder: str) -> None:
    import torch
    import torch.distributed as dist

    others = {*range(dist.get_world_size())} - {dead}
    dist.all_reduce(torch.ones(1))
    if rank == dead:
        stay_until_told(folder, *(f"begun-{other}" for other in others))
        os.kill(os.getpid(), signal.SIGKILL)
    Path(folder, f"begun-{rank}").touch()
    with raised("PeerLost", f"rank {dead}"):
        dist.new_group()
    Path(folder, str(rank)).touch()
    stay_until_told(folder, *others)
    dist.destroy_process_group()


def one_differs(rank: int, how: str) -> None:
    import torch
    import torch.distributed as dist

    x = torch.ones(20_000 + rank)
    if how == "send":
        with raised("MismatchError", "80000", "80004", "failures.py"):
            dist.recv(x, 0) if rank else dist.send(x, 1)
        dist.barrier()
        return
    with raised("MismatchError", "rank", "failures.py"):
        if how == "work":
            dist.all_reduce(x, async_op=True).wait()
        else:
            dist.all_reduce(x)
    dist.all_reduce(y := torch.ones(3))  # they begin again
    assert y.tolist() == [dist.get_world_size()] * 3


def one_makes_a_group(rank: int, how: str) -> None:
    """Rank 0 waits for the others in new_group, where the last one does not come; both hear where the other is."""
    import torch
    import torch.distributed as dist

    last = dist.get_world_size() - 1
    pair = dist.new_group([0, last]) if how == "call of a group" else None
    if how == "another group" and rank == last:
        dist.new_group([last])
    with raised("MismatchError", "rank 0", f"rank {last}", "new_group of ranks 0, ", "failures.py:"):
        if rank != last or how == "another group":
            dist.new_group()
        elif how == "work":
            dist.all_reduce(torch.ones(3), async_op=True).wait()
        elif how == "recv":
            dist.recv(torch.ones(1), 0)
        else:
            dist.all_reduce(torch.ones(3), group=pair)
    if last == 1 and how in ("call", "work"):
        dist.all_reduce(y := torch.ones(3))  # they begin again
        assert y.tolist() == [dist.get_world_size()] * 3


def one_comes_late_to_a_new_group(rank: int) -> None:
    """A call that goes on by itself, and a long message, are no reason to give up."""
    import torch
    import torch.distributed as dist

    x = torch.ones(3)
    if rank == 0:
        group = dist.new_group()
        dist.all_reduce(x)
    else:
        work = dist.all_reduce(x, async_op=True)
        time.sleep(2.5)
        group = dist.new_group()
        work.wait()
    dist.all_reduce(x, group=group)
    assert x.tolist() == [dist.get_world_size() ** 2] * 3


def models_differ(rank: int, how: str) -> None:
    """DDP says which rank, or we do which call; nobody waits for the other.

    Rank 0, whose model it is, may have returned from DDP's last broadcast by then: its next call says so.
    """
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    net = {"shape": torch.nn.Linear(12, 24 + rank), "count": torch.nn.Sequential(*model()[: 3 + rank])}[how]
    begun = time.monotonic()
    try:
        DistributedDataParallel(net)
        assert rank == 0
        dist.barrier()
    except RuntimeError as error:
        text = str(error)
        assert "rank" in text.lower() or "process 0" in text, text
    else:
        raise AssertionError("DDP took it")
    assert time.monotonic() - begun < 60
    dist.destroy_process_group()


def one_is_late(rank: int) -> None:
    from datetime import timedelta

    import torch
    import torch.distributed as dist

    group = dist.new_group(timeout=timedelta(seconds=6))  # to meet takes a part of it, too
    if rank == 0:
        with raised("DeadlineExceeded", "failures.py"):
            dist.all_reduce(torch.ones(1), group=group)
        with raised("DeadlineExceeded", "recv from rank 1", "failures.py"):
            dist.recv(torch.ones(1), 1, group=group)
        with raised("DeadlineExceeded", "Rank 1 failed to pass monitoredBarrier"):
            dist.monitored_barrier(timeout=timedelta(seconds=0.2))
    dist.all_reduce(torch.ones(1))


def one_gives_up(rank: int) -> None:
    """A message that was offered, and not taken in time, is not received later in the place of the next one."""
    from datetime import timedelta

    import torch
    import torch.distributed as dist

    group = dist.new_group(timeout=timedelta(seconds=6))
    x = torch.zeros(100_000)
    if rank == 0:
        dist.send(x[:1], 1, group=group)
        with raised("DeadlineExceeded", "send to rank 1", "failures.py"):
            dist.send(x, 1, group=group)
        dist.barrier()
        dist.send(x + 1, 1, group=group)
    else:
        dist.recv(x[:1], 0, group=group)
        dist.barrier()
        dist.recv(x, 0, group=group)
        assert (x == 1).all()
