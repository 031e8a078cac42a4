"""``dist.monitored_barrier``: a barrier in which rank 0 says which ranks did not come. torch has it for gloo alone."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from functools import wraps
from importlib import import_module
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from ..errors import DeadlineExceeded, PeerLost, UnisonoError

if TYPE_CHECKING:
    from .post import Post

TAG = -1
"""Of no message of the program's."""


def extend_monitored_barrier() -> None:
    """torch's own function refuses every backend but gloo by its name."""
    c10d = import_module("torch.distributed.distributed_c10d")
    theirs = c10d.monitored_barrier

    @wraps(theirs)
    def monitored_barrier(group: Any = None, timeout: Any = None, wait_all_ranks: bool = False) -> None:
        from .group import Group

        used = dist.group.WORLD if group is None else group
        if not isinstance(used, Group):
            return theirs(group, timeout, wait_all_ranks)  # type: ignore[no-any-return]
        limit = timedelta(seconds=timeout) if isinstance(timeout, float) else timeout
        return used.monitored_barrier(limit, wait_all_ranks)

    for module in (c10d, dist):
        vars(module)["monitored_barrier"] = monitored_barrier


def pass_barrier(post: Post, rank: int, size: int, seconds: float, *, wait_all_ranks: bool) -> None:
    """Return when all ranks have come here. The messages are those of gloo's, which programs may look for."""
    if rank:
        _report(post, rank, seconds)
        return
    if seconds <= 0:
        raise DeadlineExceeded("Rank 0 timed out in monitoredBarrier after 0 ms.")
    letters = [post.receive(_token(), peer, TAG, seconds) for peer in range(1, size)]
    absent = []
    for peer, letter in enumerate(letters, 1):
        try:
            letter.wait()
        except PeerLost as error:
            lost = error.ranks or (peer,)
            raise _renamed(error, f"{_named(lost)} failed to pass monitoredBarrier: {error}", lost) from error
        except UnisonoError:
            absent.append(peer)
            if not wait_all_ranks:
                break
    if absent:
        late = DeadlineExceeded(f"{_named(absent)} failed to pass monitoredBarrier in {seconds * 1000:.0f} ms")
        late.ranks = tuple(absent)
        raise late
    for answer in [post.send(_token(), peer, TAG, seconds) for peer in range(1, size)]:
        answer.wait()


def _report(post: Post, rank: int, seconds: float) -> None:
    """Tell rank 0 that this one is here, and wait until it knows that all are."""
    try:
        post.send(_token(), 0, TAG, seconds)
        post.receive(_token(), 0, TAG, seconds).wait()
    except UnisonoError as error:
        text = (
            f"Rank {rank} successfully reached monitoredBarrier, but received errors while waiting for send/recv from "
            f"rank 0. Please check rank 0 logs for faulty rank. ({error})"
        )
        raise _renamed(error, text, error.ranks) from error


def _renamed(error: UnisonoError, text: str, ranks: Sequence[int]) -> UnisonoError:
    renamed = type(error)(text)
    renamed.ranks = tuple(ranks)
    return renamed


def _named(ranks: Sequence[int]) -> str:
    return f"Rank{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks))}"


def _token() -> torch.Tensor:
    return torch.zeros(1, dtype=torch.uint8)
