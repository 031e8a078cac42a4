"""``unisono.init()``: from what the process was told to a communicator of all ranks."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from ..config import read_settings
from ..errors import ConfigError, UnisonoError
from .wiring import wire

if TYPE_CHECKING:
    from .communicator import Communicator

MEMORY_FOR_RINGS = 64 << 20
"""All rings that one rank reads from have at most so many bytes together."""

LONGEST_RING, SHORTEST_RING = 1 << 20, 1 << 12


def init(*, allow_pickle: bool = False, **arguments: Any) -> Communicator:
    """Join the job that this process was started for; alone, it is a job of one rank.

    Arguments take precedence over UNISONO_* variables, and these over those of torchrun, mpirun and srun.
    ``allow_pickle`` allows the calls on objects, which run code that the other ranks send.
    """
    try:
        from .._native import Executor, Inbox
        from .communicator import Communicator
    except ModuleNotFoundError as error:
        raise ConfigError("unisono was installed without its native core, so it cannot communicate") from error

    settings = read_settings(**arguments)
    inboxes: list[Inbox] = []

    def make_inbox(ranks: int) -> int:
        try:
            inboxes.append(Inbox(ranks, ring_bytes(ranks)))
        except UnisonoError as error:  # no memory to share: the wiring takes TCP instead
            raise OSError(str(error)) from error
        return os.dup(inboxes[0].descriptor())

    wiring = wire(settings, make_inbox)
    try:
        executor = Executor(
            wiring.rank,
            wiring.size,
            inboxes[0] if inboxes else None,
            list(wiring.inboxes.items()),
            [(peer, sock.detach()) for peer, sock in wiring.sockets.items()],
            [(peer, os.pidfd_open(pid)) for peer, pid in wiring.pids.items()],
            ranks_on_host=len(wiring.local_ranks),
        )
    except BaseException:
        wiring.close()
        raise
    return Communicator(
        executor,
        rank=wiring.rank,
        size=wiring.size,
        local_rank=wiring.local_rank,
        hosts=wiring.hosts,
        deadline=settings.deadline,
        allow_pickle=allow_pickle,
        on_close=wiring.close,
    )


def ring_bytes(ranks: int) -> int:
    """The size of a ring, a power of two."""
    fitting = MEMORY_FOR_RINGS // ranks
    return max(SHORTEST_RING, min(LONGEST_RING, 1 << (fitting.bit_length() - 1)))
