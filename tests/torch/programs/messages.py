"""Messages between two ranks."""

from __future__ import annotations

import os
import time


def in_any_order(rank: int) -> None:
    """In both directions at once, long and short, by tag, from any rank, to oneself."""
    import torch
    import torch.distributed as dist

    size = dist.get_world_size()
    right, left = (rank + 1) % size, (rank - 1) % size
    for length in (0, 1, 1000, 300_000):
        sent, got = torch.full((length,), float(rank)), torch.empty(length)
        operations = [dist.P2POp(dist.isend, sent, right), dist.P2POp(dist.irecv, got, left)]
        for work in dist.batch_isend_irecv(operations):
            work.wait()
        assert (got == left).all()
    works = [dist.isend(torch.full((50_000,), float(tag)), right, tag=tag) for tag in range(4)]
    for tag in reversed(range(4)):
        dist.recv(got := torch.empty(50_000), left, tag=tag)
        assert (got == tag).all()
    for work in works:
        work.wait()
    dist.isend(torch.tensor([rank]), rank)
    dist.recv(own := torch.tensor([-1]), rank)
    assert own.item() == rank
    if rank:
        dist.send(torch.tensor([rank]), 0, tag=9)
    else:
        seen = [(dist.recv(x := torch.tensor([0]), tag=9), x.item()) for _ in range(size - 1)]
        assert sorted(seen) == [(r, r) for r in range(1, size)]
    dist.recv_object_list(words := [None], left) if rank else dist.send_object_list(["hello"], right)
    if rank:
        assert words == ["hello"]
        if right:
            dist.send_object_list(words, right)
    dist.monitored_barrier()


def of_threads(rank: int, links: str) -> None:
    """Several threads send and receive at once; callbacks of futures send, too; what nobody waits for goes on."""
    import threading

    import torch
    import torch.distributed as dist

    size = dist.get_world_size()
    right, left = (rank + 1) % size, (rank - 1) % size
    os.environ["UNISONO_LINKS"] = links
    group = dist.new_group()
    wrong: list[str] = []

    def talk(tag: int) -> None:
        for length in (1, 30_000, 400_000) * 5:
            work = dist.isend(torch.full((length,), float(rank + tag)), right, tag=tag, group=group)
            dist.recv(got := torch.empty(length), left, tag=tag, group=group)
            work.wait()
            if not (got == left + tag).all():
                wrong.append(f"tag {tag}, {length} elements")

    threads = [threading.Thread(target=talk, args=(tag,)) for tag in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, wrong
    for length in (1, 100_000):
        answers = []
        future = dist.irecv(got := torch.empty(length), left, tag=9, group=group).get_future()
        answered = future.then(
            lambda _, answers=answers, got=got: answers.append(dist.isend(got, left, tag=10, group=group))
        )
        dist.send(torch.full((length,), float(rank)), right, tag=9, group=group)
        dist.recv(back := torch.empty(length), right, tag=10, group=group)
        assert (back == rank).all()
        answered.wait()
        answers[0].wait()
    kept = dist.isend(torch.ones(1_000_000), right, tag=11, group=group)
    late = dist.irecv(got := torch.empty(1_000_000), left, tag=11, group=group)
    until = time.monotonic() + 60
    while not (kept.is_completed() and late.is_completed()) and time.monotonic() < until:
        time.sleep(0.01)  # and nobody waits
    assert (got == 1).all()
    dist.barrier()
