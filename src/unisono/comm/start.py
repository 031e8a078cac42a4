"""``unisono.init()``: from what the process was told to a communicator of all ranks, and from that to smaller ones."""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np

from ..config import LOOPBACK, Settings, parse_address, read_settings
from ..errors import ConfigError, UnisonoError
from .black_box import Witness, witness_of
from .buffers import keep_little_on_its_way
from .fork import in_a_forked_child
from .introduction import introduce_ranks
from .lookout import Lookout
from .models import Basis, agree_on_model
from .rendezvous import listen
from .shrink import Shrink
from .verdict import tell_launcher
from .wiring import Wiring, wire

if TYPE_CHECKING:
    from .._native import Executor
    from ..injection import Injection
    from ..trace.file import TraceFile, Track
    from .communicator import Communicator
    from .conversation import Talk
    from .plans import Sharing
    from .testimony import Testimony

LONGEST_ADDRESS = 64


def init(*, allow_pickle: bool = False, **arguments: Any) -> Communicator:
    """Join the job that this process was started for; alone, it is a job of one rank.

    Arguments take precedence over UNISONO_* variables, and these over those of torchrun, mpirun and srun.
    ``allow_pickle`` allows the calls on objects, which run code that the other ranks send.
    """
    return enter(introduce_ranks(read_settings(**arguments)), allow_pickle=allow_pickle)


def enter(settings: Settings, *, allow_pickle: bool) -> Communicator:
    """Join a job, as these settings say, with all that goes with it: word to the launcher, a trace, failures to
    rehearse."""
    if settings.verdicts:
        tell_launcher(settings.verdicts, settings.rank)
    trace = None
    if settings.trace:
        from ..trace.file import TraceFile

        trace = TraceFile(settings.trace, settings.rank)
        in_a_forked_child(trace, TraceFile.let_go)
    try:
        return join(settings, allow_pickle=allow_pickle, trace=trace, injections=settings.inject)
    except BaseException:
        if trace:
            trace.close()
        raise


def join(
    settings: Settings,
    *,
    allow_pickle: bool,
    trace: TraceFile | None = None,
    track: Track | None = None,
    injections: tuple[Injection, ...] = (),
    witness: Witness | None = None,
    witnesses: Sequence[Talk[None]] = (),
    testimonies: Sequence[Testimony] = (),
    basis: Basis | None = None,
    seconds: float = inf,
) -> Communicator:
    """Meet the ranks that have the same settings, and link with each of them, in so many seconds at most.

    A trace is opened when its ranks have met; a track is part of one that was opened before, a witness of another one.
    Injections count the ranks and the calls of this communicator, so one that comes from another gets none. What one of
    the witnesses raises ends the meeting; testimonies are closed with the communicator. What the ranks choose
    algorithms by is the basis, if they have agreed on one before.
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

    seconds = min(seconds, settings.start_timeout)
    wiring = wire(replace(settings, start_timeout=seconds), share_inbox, witnesses)
    if settings.verbose and wiring.rank == 0:
        print(f"unisono: {wiring.summary()}", file=sys.stderr, flush=True)
    lookout = Lookout(wiring.control)
    try:
        if wiring.traced:
            track = begin_trace(settings, wiring, trace)
        basis = basis or agree_on_model(settings, wiring, seconds=seconds)  # while the wires are still ours to look at
        keep_little_on_its_way(wiring)
        inbox = inboxes[0] if inboxes else make_inbox(1)
        executor = Executor(
            wiring.rank,
            wiring.size,
            inbox,
            list(wiring.inboxes.items()),
            [(peer, sock.detach()) for peer, streams in wiring.sockets.items() for sock in streams],
            list(wiring.pids.items()),
            ranks_on_machine=wiring.machines.count(wiring.machines[wiring.rank]),
        )
        executor.inject([(x.action, x.call, x.round, x.seconds) for x in injections if x.rank == wiring.rank])
        sharing = agree_on_sharing(executor, wiring, staged=settings.links == "staged", seconds=seconds)
        witness = witness or witness_of(settings, wiring.control.names)
    except BaseException:
        lookout.close()
        wiring.close()
        raise

    process = os.getpid()

    def leave() -> None:
        executor.leave()
        lookout.close()
        wiring.close()
        for testimony in testimonies:
            testimony.close()

    def close() -> None:
        if os.getpid() != process:  # collected in a forked child, before it has let go of everything
            return
        if lookout.runs_here:  # collected there
            threading.Thread(target=leave, name="unisono-close").start()
        else:
            leave()

    return Communicator(
        executor,
        rank=wiring.rank,
        size=wiring.size,
        local_rank=wiring.local_rank,
        hosts=wiring.hosts,
        machines=wiring.machines,
        links=wiring.links,
        deadline=settings.deadline,
        allow_pickle=allow_pickle,
        inbox=inbox,
        sharing=sharing,
        lookout=lookout,
        strict=settings.check == "strict",
        on_close=close,
        regroup=Regroup(settings, track, witness, basis),
        shrink=Shrink(
            partial(join, basis=basis), settings, wiring.directory, wiring.refuge, testimonies, track, witness
        ),
        track=track,
        witness=witness,
        model=basis.model,
        cores=basis.cores,
    )


def agree_on_sharing(executor: Executor, wiring: Wiring, *, staged: bool, seconds: float) -> Sharing | None:
    """Whether all ranks share memory, and whether each may use the others' private memory, too."""
    from .memory import STAGE_BYTES
    from .plans import Sharing

    if not executor.shares_memory():
        return None
    direct = not staged and executor.can_be_direct()
    return Sharing(STAGE_BYTES, all(wiring.control.exchange(direct, deadline=seconds)))


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

    def __init__(self, settings: Settings, track: Track | None, witness: Witness | None, basis: Basis) -> None:
        self._settings = settings
        self._basis = basis
        self._track = track
        self._witness = witness
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
            dump=None,  # by the witness
        )
        return self.join(settings, number, members, allow_pickle=comm.allow_pickle)

    def join(
        self,
        settings: Settings,
        number: int | str,
        members: list[int],
        *,
        allow_pickle: bool,
        witnesses: Sequence[Talk[None]] = (),
    ) -> Communicator:
        """Meet the ranks that have these settings: those members, the so-manieth that were taken out."""
        track = self._track.part(number, members) if self._track else None
        witness = self._witness.part(number, members) if self._witness and len(members) > 1 else None
        return join(
            settings, allow_pickle=allow_pickle, track=track, witness=witness, witnesses=witnesses, basis=self._basis
        )


def local_address(settings: Settings) -> str:
    """The address of this host on the way to rank 0, by which the others reach it, too."""
    if settings.rendezvous is None:
        return LOOPBACK
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(tuple(settings.rendezvous))  # of datagrams: nothing is sent, only a route is chosen
        return str(probe.getsockname()[0])
