"""The process group: what torch asks of it, on a communicator and a post."""

from __future__ import annotations

import atexit
from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from weakref import WeakSet

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import Work

from .._native import expect_leaks
from ..comm.communicator import Communicator
from ..errors import ConfigError, PeerLost
from ..uncompiled import leave_uncompiled
from .collectives import Collectives, only
from .departures import leave, own_part, why_gone
from .errands import errand_among
from .meeting import meet
from .monitored import pass_barrier
from .post import Post

SECONDS_TO_ABORT = 5.0


_groups: WeakSet[Group] = WeakSet()


@atexit.register
def _stop_all() -> None:
    """A thread that is in torch's C++ when the interpreter ends takes the process with it. Works of functional
    collectives that nobody has waited for are kept there, too, beyond that end."""
    for group in list(_groups):
        group.stop()
    expect_leaks()


def _open_groups() -> list[Group]:
    return [group for group in list(_groups) if not group.comm._runner.closed]


class Group(Collectives):
    """Of ranks that use unisono. What is not a call of all ranks is for the post."""

    def __init__(self, comm: Communicator, post: Post, store: Any, own_part: Any, members: Sequence[int]) -> None:
        super().__init__(comm)
        self._members = members
        comm._runner.say_of_errands(lambda: errand_among(members))
        self._post, self._store, self._own_part = post, store, own_part
        self._name = self._description = ""
        self._has_left = False
        _groups.add(self)

    @classmethod
    def meet(cls, options: Any) -> Group:
        """For torch's options of a new group: made by all of its ranks."""
        world = dist.GroupMember.WORLD if options.global_ranks_in_group else None
        comm, settings, host = meet(options, world if isinstance(world, Group) else None)
        store = own_part(options.store, settings)
        members = list(options.global_ranks_in_group) or list(range(comm.size))
        return cls(comm, Post(settings, host, store, lambda: comm.failure, members), options.store, store, members)

    # What torch asks

    def getBackendName(self) -> str:  # noqa: N802
        return "unisono"

    # torch keeps the names of a group in backends, which this one has none of.

    def getGroupName(self) -> str:  # noqa: N802
        return self._name

    def setGroupName(self, name: str) -> None:  # noqa: N802
        self._name = name

    def getGroupDesc(self) -> str:  # noqa: N802
        return self._description

    def setGroupDesc(self, description: str) -> None:  # noqa: N802
        self._description = description

    _set_group_name, group_name = setGroupName, property(getGroupName)
    _set_group_desc, group_desc = setGroupDesc, property(getGroupDesc)

    def get_group_store(self) -> Any:
        return self._store

    @property
    def _device_types(self) -> list[torch.device]:
        return [torch.device("cpu")]

    def _get_backend(self, device: torch.device) -> Group:
        if torch.device(device).type != "cpu":
            raise ConfigError(f"unisono communicates tensors in the memory of the CPU, not on device {device}")
        return self

    @property
    def supports_splitting(self) -> bool:
        return False

    @property
    def supports_coalescing(self) -> bool:
        return False

    def set_timeout(self, timeout: timedelta) -> None:
        """How long a call may take from now on that says nothing else."""
        self.comm.deadline = timeout.total_seconds()

    _set_default_timeout = set_timeout

    def shutdown(self) -> None:
        """When the calls under way are through."""
        self._completions.close()
        self._leave()
        self.comm.close()

    def abort(self) -> None:
        """The calls under way end now, and fail."""
        self.stop()
        self.shutdown()

    def stop(self) -> None:
        """No thread of this group is in torch afterwards; the communicator remains."""
        if not self.comm._runner.closed:
            self.comm._runner.executor.stop(SECONDS_TO_ABORT)
        self._completions.close()
        self._leave()

    def _leave(self) -> None:
        """What was sent has gone, and nothing more comes from here; may be called twice."""
        self._post.close()
        if not self._has_left:
            self._has_left = True
            leave(self._own_part, self.comm.rank)

    def failed_groups(self) -> list[Group]:
        """Of this process, other than this one."""
        return [group for group in _open_groups() if group is not self and group.comm.failure]

    def why_gone(self, ranks: Sequence[int], failed_before: Sequence[Group] = ()) -> BaseException | None:
        """Why these do not all come to a meeting any more. What failed before it is another matter."""
        for group in _open_groups():
            if group in failed_before or not (group is self or set(ranks) & set(group._members)):
                continue
            if failure := group.comm.failure:
                return group.comm._runner.explain(failure, "new_group", group.comm._runner.epoch)
        for rank in ranks:
            if rank != self.comm.rank and (why := why_gone(self._own_part, rank)):
                error = PeerLost(f"rank {self.comm.rank} lost rank {rank}: {why}.")
                error.ranks = (rank,)
                return error
        return None

    @staticmethod
    def ask_after(ranks: Sequence[int]) -> None:
        """Who does not come may wait for this rank in a call of some group: then that fails, on all. Not while messages
        are under way, which end by themselves."""
        groups = _open_groups()
        if all(group._post.is_idle() for group in groups):
            for group in groups:
                if any(rank in group._members for rank in ranks):
                    group.comm._runner.tell_of_errand()

    # Between two ranks

    def send(self, tensors: Sequence[Tensor], to: int, tag: int = 0) -> Work:
        return self._post.send(only(tensors, "send"), to, tag, self.comm.deadline)

    def recv(self, tensors: Sequence[Tensor], source: int, tag: int = 0) -> Work:
        return self._post.receive(only(tensors, "recv"), source, tag, self.comm.deadline)

    def recv_anysource(self, tensors: Sequence[Tensor], tag: int = 0) -> Work:
        return self._post.receive(only(tensors, "recv"), None, tag, self.comm.deadline)

    def monitored_barrier(self, timeout: timedelta | None = None, wait_all_ranks: bool = False) -> None:
        """A barrier in which rank 0 names the first rank that did not come, or all of them."""
        seconds = self.comm.deadline if timeout is None else timeout.total_seconds()
        pass_barrier(self._post, self.comm.rank, self.comm.size, seconds, wait_all_ranks=wait_all_ranks)


leave_uncompiled((*vars(Collectives).values(), *vars(Group).values()))
