"""``unisono.init()``: from what the process was told to a communicator of all ranks, and from that to smaller ones."""

from __future__ import annotations

import os
import socket
import sys
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np

from ..config import LOOPBACK, Settings, parse_address, read_settings
from ..errors import ConfigError, UnisonoError
from .alarm import Alarm
from .introduction import introduce_ranks
from .rendezvous import listen
from .verdict import tell_launcher
from .wiring import Wiring, wire

if TYPE_CHECKING:
    from .._native import Executor
    from ..trace.file import TraceFile, Track
    from .communicator import Communicator
    from .plans import Sharing

LONGEST_ADDRESS = 64
DEADLINE_TO_AGREE = 60.0


def init(*, allow_pickle: bool = False, **arguments: Any) -> Communicator:
    """Join the job that this process was started for; alone, it is a job of one rank.

    Arguments take precedence over UNISONO_* variables, and these over those of torchrun, mpirun and srun.
    ``allow_pickle`` allows the calls on objects, which run code that the other ranks send.
    """
    settings = introduce_ranks(read_settings(**arguments))
    if settings.verdicts:
        tell_launcher(settings.verdicts, settings.rank)
    trace = None
    if settings.trace:
        from ..trace.file import TraceFile

        trace = TraceFile(settings.trace, settings.rank)
    try:
        return join(settings, allow_pickle=allow_pickle, trace=trace)
    except BaseException:
        if trace:
            trace.close()
        raise


def join(
    settings: Settings, *, allow_pickle: bool, trace: TraceFile | None = None, track: Track | None = None
) -> Communicator:
    """Meet the ranks that have the same settings, and link with each of them.

    A trace is opened when its ranks have met; a track is part of one that was opened before.
    """
    try:
        from .._native import Executor, Inbox
        from .communicator import Communicator
        from .memory import make_inbox
    except ModuleNotFoundError as error:
        raise ConfigError("unisono was installed without its native core, so it cannot communicate") from error

    inboxes: list[Inbox] = []

    def share_inbox(ranks: int) -> int:
        try:
            inboxes.append(make_inbox(ranks))
        except UnisonoError as error:  # no memory to share: the wiring takes TCP instead
            raise OSError(str(error)) from error
        return os.dup(inboxes[0].descriptor())

    wiring = wire(settings, share_inbox)
    if settings.verbose and wiring.rank == 0:
        print(f"unisono: {wiring.summary()}", file=sys.stderr, flush=True)
    alarm = Alarm(wiring.control)
    try:
        if wiring.traced:
            track = begin_trace(settings, wiring, trace)
        inbox = inboxes[0] if inboxes else make_inbox(1)
        executor = Executor(
            wiring.rank,
            wiring.size,
            inbox,
            list(wiring.inboxes.items()),
            [(peer, sock.detach()) for peer, streams in wiring.sockets.items() for sock in streams],
            list(wiring.pids.items()),
            alarm.descriptor,
            ranks_on_host=len(wiring.local_ranks),
        )
        sharing = agree_on_sharing(executor, wiring, staged=settings.links == "staged")
    except BaseException:
        alarm.close()
        wiring.close()
        raise

    def close() -> None:
        executor.leave()
        alarm.close()
        wiring.close()

    return Communicator(
        executor,
        rank=wiring.rank,
        size=wiring.size,
        local_rank=wiring.local_rank,
        hosts=wiring.hosts,
        links=wiring.links,
        deadline=settings.deadline,
        allow_pickle=allow_pickle,
        inbox=inbox,
        sharing=sharing,
        alarm=alarm,
        on_close=close,
        regroup=Regroup(settings, track),
        track=track,
    )


def agree_on_sharing(executor: Executor, wiring: Wiring, *, staged: bool) -> Sharing | None:
    """Whether all ranks share memory, and whether each may use the others' private memory, too."""
    from .memory import STAGE_BYTES
    from .plans import Sharing

    if not executor.shares_memory():
        return None
    direct = not staged and executor.can_be_direct()
    return Sharing(STAGE_BYTES, all(wiring.control.exchange(direct, deadline=DEADLINE_TO_AGREE)))


def begin_trace(settings: Settings, wiring: Wiring, trace: TraceFile | None) -> Track | None:
    """Where some rank writes a trace, all take part in comparing clocks."""
    from .clock import align

    run, offset, error = align(wiring.control, deadline=settings.start_timeout)
    if trace is None:
        return None
    trace.open(size=wiring.size, host=settings.host, run=run, offset=offset, error=error)
    return trace.track("world", range(wiring.size))


class Regroup:
    """Makes communicators of some ranks of one: the first of them listens, all are told where, and they meet there."""

    def __init__(self, settings: Settings, track: Track | None) -> None:
        self._settings = settings
        self._track = track
        self._numbers = count()

    def __call__(self, comm: Communicator, members: list[int]) -> Communicator | None:
        """A communicator of these ranks, in this order; with none, the others are only helped to find each other."""
        number = next(self._numbers)
        leads = len(members) > 1 and members[0] == comm.rank
        listener = listen(local_address(self._settings), key=self._settings.key) if leads else None
        where = "{}:{}".format(*listener.getsockname()[:2]) if listener else ""
        card = np.frombuffer(where.encode().ljust(LONGEST_ADDRESS), np.uint8)
        try:
            cards = comm.allgather(card)
        except BaseException:
            if listener:
                listener.close()
            raise
        if not members:
            return None
        text = cards[members[0]].tobytes().decode().strip()
        settings = replace(
            self._settings,
            rank=members.index(comm.rank),
            size=len(members),
            local_rank=None,
            rendezvous=parse_address("rendezvous", text) if text else None,
            listener=listener.detach() if listener else None,
            verbose=False,
            job=f"{self._settings.job}.{number}.{members[0]}",
            trace=None,  # is written already
        )
        track = self._track.part(number, members) if self._track else None
        return join(settings, allow_pickle=comm.allow_pickle, track=track)


def local_address(settings: Settings) -> str:
    """The address of this host on the way to rank 0, by which the others reach it, too."""
    if settings.rendezvous is None:
        return LOOPBACK
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(tuple(settings.rendezvous))  # of datagrams: nothing is sent, only a route is chosen
        return str(probe.getsockname()[0])
