"""From the directory to links: every pair of ranks shares memory, or else has a TCP connection.

Whether two ranks share a host is tried, not guessed from names: the higher rank connects to the lower one's abstract
Unix socket, both prove the key, and both pass a descriptor of their inbox, which the other maps. Other network
namespaces, containers and hosts fail at one of these steps and take TCP. All pairs are made at once, in one thread.

Nobody is wired before all are: every rank reports its row, rank 0 says the verdict. So a pair that fails is an error on
every rank, the same everywhere, with who could reach whom.
"""

from __future__ import annotations

import mmap
import os
import socket
import struct
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from math import inf
from time import monotonic
from typing import Any

from ..config import Address, Settings
from ..errors import ConfigError, DeadlineExceeded, PeerLost, UnisonoError
from .addresses import nearest_first, own_addresses
from .control import Control
from .conversation import Loop, Talk, connect, pause, within
from .doors import Doors
from .fork import in_a_forked_child
from .frames import Channel, Closed, Frame, Garbled, Kind, close_descriptors, describe
from .handshake import Dropped, admit, introduce
from .refuge import Refuge
from .refusals import Refused, Why
from .rendezvous import GRACE, Card, Directory, meet, open_meeting

PATIENCE_WHEN_REFUSED = 2.0  # who refuses us announced that it listens; a firewall that says no keeps saying it
SILENCE = 2.0  # of one address, before the next is tried; the first attempt to connect is repeated after 1 s
SHARED, WIRED, FAILED, PENDING, SELF = "=-x?."


@dataclass(eq=False)
class Wiring:
    """A rank and its links. The sockets do not block; closing is up to the owner."""

    rank: int
    size: int
    local_rank: int
    local_ranks: list[int]  # on this host, this one included
    hosts: list[str]  # by rank
    machines: list[str]  # by rank: hosts of a lab are on one
    inbox: int | None  # None: nobody shares it
    inboxes: dict[int, int]  # of the ranks that share memory with this one
    sockets: dict[int, list[socket.socket]]  # to all others; both ends have the same order
    control: Control
    pids: dict[int, int] = field(default_factory=dict)  # of those that share memory, as this process sees them
    pairs: Counter[str] = field(default_factory=Counter)  # on rank 0: how many pairs of ranks have which link
    traced: bool = False  # some rank writes a trace
    directory: Directory | None = None  # None: there is nobody else
    refuge: Refuge | None = None

    def __post_init__(self) -> None:
        in_a_forked_child(self, Wiring._let_go)

    def summary(self) -> str:
        """On rank 0: ``4 ranks on 2 hosts: 2 pairs by shared memory, 4 pairs by TCP``."""
        ranks, hosts = (
            f"{n} {word}{'s' * (n > 1)}" for n, word in ((self.size, "rank"), (len(set(self.hosts)), "host"))
        )
        shared, wired = self.pairs[SHARED], self.pairs[WIRED]
        links = [f"{n} pair{'s' * (n > 1)} by {link}" for n, link in ((shared, "shared memory"), (wired, "TCP")) if n]
        return f"{ranks} on {hosts}{': ' * bool(links)}{', '.join(links)}"

    @property
    def links(self) -> list[str]:
        """How each rank is reached; "self" is this one."""
        kinds = dict.fromkeys(self.sockets, "tcp") | dict.fromkeys(self.inboxes, "shm")
        return [kinds.get(peer, "self") for peer in range(self.size)]

    def close(self) -> None:
        """Closes everything that is open here; may be called twice."""
        self._let_go()
        for streams in self.sockets.values():
            for sock in streams:
                sock.close()
        if self.refuge:
            self.refuge.close()
        self.control.close()

    def _let_go(self) -> None:
        """Of what nobody else closes in a forked child."""
        descriptors = [*([] if self.inbox is None else [self.inbox]), *self.inboxes.values()]
        self.inbox = None
        self.inboxes.clear()
        close_descriptors(descriptors)


def wire(settings: Settings, make_inbox: Callable[[int], int], witnesses: Sequence[Talk[None]] = ()) -> Wiring:
    """Meets the other ranks and links with each. `make_inbox(size)` makes the descriptor that local peers will map;
    what a witness of rank 0's raises before all have met ends it."""
    if settings.size == 1:
        control = Control(0, ["rank 0"], {})
        alone = Wiring(0, 1, settings.local_rank or 0, [0], [settings.host], [settings.host], None, {}, {}, control)
        alone.traced = bool(settings.trace)
        return alone
    with ExitStack() as at_the_end, ExitStack() as on_failure:
        if listener := open_meeting(settings):  # first of all: an inherited one is closed whatever happens
            at_the_end.callback(listener.close)
        doors = Doors(settings, make_inbox)
        at_the_end.callback(doors.close)
        on_failure.callback(doors.close_inbox)
        on_failure.callback(doors.close_refuge)
        control, directory = meet(settings, listener, doors, witnesses)
        on_failure.callback(control.close)
        pairs = _Pairs(settings, directory, doors, control)
        on_failure.callback(pairs.close)
        try:
            pairs.connect()
        except UnisonoError as error:
            control.abort(error)
            raise
        except BaseException:
            control.abort(PeerLost(f"{directory.cards[settings.rank]} was interrupted while the ranks were wired"))
            raise
        on_failure.pop_all()
    return pairs.wiring()


class _Pairs:
    """The links of one rank, while they are made."""

    def __init__(self, settings: Settings, directory: Directory, doors: Doors, control: Control) -> None:
        self.settings = settings
        self.rank, self.size = settings.rank, settings.size
        self.directory = directory
        self.cards = directory.cards
        self.secret = directory.secret
        self.own_addresses = own_addresses()
        self.doors = doors
        self.control = control
        self.inboxes: dict[int, int] = {}
        self.sockets: dict[int, dict[int, socket.socket]] = {}  # by the number of the stream
        self.pids: dict[int, int] = {}
        self.linked: set[int] = set()  # by memory, or by all streams
        self.failures: dict[int, str] = {}
        self.stopped = False
        self.trying: dict[int, str] = {}
        self.rows: dict[int, dict[str, Any]] = {}  # on rank 0: what all report
        self.verdict: dict[str, Any] | None = None  # elsewhere: what rank 0 says
        self.traced = False

    def connect(self) -> None:
        """All pairs at once, then the verdict."""
        deadline = monotonic() + self.settings.start_timeout
        with Loop() as loop:
            watchers = [loop.start(self.watch(rank)) for rank in self.control.channels]
            self.doors.serve(loop, unix=self.serve_unix, tcp=self.serve_tcp)
            for rank in range(self.rank):
                loop.start(self.reach(rank))
            with suppress(TimeoutError):
                loop.run(lambda: self.complete() or bool(self.failures) or self.stopped, deadline)
            loop.cancel_all(but=watchers)
            self.doors.close()  # the others may not be through yet, but they come to us no more
            if self.rank:
                verdict = self.report(loop, deadline)
            else:
                verdict = self.collect(loop, deadline)
                loop.cancel_all()  # from here on, what a rank says is not for us
                tell = [loop.start(self.control.post(rank, Kind.VERDICT, verdict)) for rank in self.control.channels]
                with suppress(TimeoutError):
                    loop.run(lambda: all(task.done for task in tell), monotonic() + GRACE)
        if "message" in verdict:
            kind = ConfigError if verdict.get("error") == "ConfigError" else DeadlineExceeded
            self.control.failure = kind(str(verdict["message"]))
            raise self.control.failure
        self.traced = bool(verdict.get("traced"))

    def complete(self) -> bool:
        return len(self.linked) == self.size - 1

    def streams_with(self, peer: int) -> int:
        return streams_between(self.cards[self.rank], self.cards[peer])

    # One pair, from the higher rank

    def reach(self, peer: int) -> Talk[None]:
        card, reasons = self.cards[peer], []
        if self.doors.unix and card.unix:
            self.trying[peer] = "no answer on its Unix socket"
            attempts = 0
            while attempts < 3:
                try:
                    return (yield from self.share(card))
                except Dropped as error:  # from a crowd of strangers: it is there, and will have time
                    self.trying[peer] = f"no answer on its Unix socket: {describe(error)}"
                    yield pause(0.01)
                except (OSError, Closed, Garbled, ConfigError) as error:
                    attempts += 1
                    reason = f"no shared memory: {describe(error)}"
                    if isinstance(error, ConnectionRefusedError):  # no such name in this network namespace
                        break
            reasons.append(reason)
        else:
            reasons.append(f"no shared memory: rank {peer if self.doors.unix else self.rank} does not offer it")
        if self.doors.tcp and card.port:
            reasons += yield from self.call_somewhere(card)
            if peer in self.linked:
                return
        else:
            reasons.append(f"no TCP: rank {peer if self.doors.tcp else self.rank} has UNISONO_LINKS=shm")
        self.failures[peer] = "; ".join(reasons)

    def share(self, card: Card) -> Talk[None]:
        channel = Channel(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        try:
            yield from connect(channel.sock, f"\0{card.unix}")
            yield from introduce(
                channel, self.secret, purpose="share", rank=self.rank, peer=card.rank, where=f"@{card.unix}"
            )
            yield from channel.send(Kind.INBOX, {}, descriptor=self.doors.inbox)
            inbox = mapped((yield from channel.receive(Kind.INBOX, descriptors=1)))
            try:
                yield from channel.send(Kind.SHARED, {})
            except BaseException:
                os.close(inbox)
                raise
            self.keep(card.rank, channel, inbox)
        finally:
            channel.close()

    def call_somewhere(self, card: Card) -> Talk[list[str]]:
        """All streams, by the nearest address that answers; else why none does. One that is silent is tried on."""
        near = nearest_first(card.addresses, self.own_addresses)
        seconds = min(SILENCE, self.settings.start_timeout / (len(near) + 1)) if len(near) > 1 else inf
        patience = monotonic() + PATIENCE_WHEN_REFUSED
        tried: dict[Address, Exception] = {}
        while True:
            for where in (Address(address, card.port) for address in near):
                others = (f"{other}: {describe(error)}" for other, error in tried.items() if other != where)
                self.trying[card.rank] = "; ".join([*others, f"no answer from {where}"])
                try:
                    for stream in range(self.streams_with(card.rank)):
                        yield from self.call(card, where, stream, seconds)
                    return []
                except (OSError, Closed, Garbled, ConfigError) as error:
                    tried[where] = error
            may_answer = any(isinstance(error, TimeoutError | Dropped) for error in tried.values())
            if monotonic() >= patience and not may_answer:
                return [f"{where}: {describe(error)}" for where, error in tried.items()]
            yield pause(0.1)

    def call(self, card: Card, where: Address, stream: int, seconds: float) -> Talk[None]:
        """The system of the other host answers in time; the rank itself may be slow."""
        channel = Channel(socket.socket(socket.AF_INET6 if ":" in where.host else socket.AF_INET, socket.SOCK_STREAM))
        try:
            yield from within(seconds, connect(channel.sock, where))
            peer = f"rank {card.rank} at {where}"
            yield from introduce(
                channel, self.secret, purpose="tcp", rank=self.rank, peer=card.rank, where=peer, stream=stream
            )
            self.keep(card.rank, channel, stream=stream)
        except BaseException:
            channel.close()
            raise

    # One pair, from the lower rank

    def serve_unix(self, channel: Channel) -> Talk[None]:
        peer = self.expected((yield from admit(channel, self.secret, purpose="share", rank=self.rank)).rank)
        inbox = mapped((yield from channel.receive(Kind.INBOX, descriptors=1)))
        try:
            yield from channel.send(Kind.INBOX, {}, descriptor=self.doors.inbox)
            yield from channel.receive(Kind.SHARED)
        except BaseException:
            os.close(inbox)
            raise
        self.keep(peer, channel, inbox)
        channel.close()

    def serve_tcp(self, channel: Channel) -> Talk[None]:
        guest = yield from admit(channel, self.secret, purpose="tcp", rank=self.rank)
        peer = self.expected(guest.rank)
        if not 0 <= guest.stream < self.streams_with(peer):
            raise Refused(Why.PLACE, f"stream {guest.stream} of {self.streams_with(peer)} with rank {peer}")
        self.keep(peer, channel, stream=guest.stream)

    def expected(self, peer: int) -> int:
        if not self.rank < peer < self.size:
            raise Refused(Why.PLACE, f"rank {peer} does not connect to rank {self.rank}")
        return peer

    def keep(self, peer: int, channel: Channel, inbox: int | None = None, *, stream: int = 0) -> None:
        """The newest link with a rank counts: it would not have made another one if the last had worked. The streams
        of a link come one after the other, so the first one begins a new link."""
        if stream == 0:
            self.drop(peer)
        if inbox is None:
            channel.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            streams = self.sockets.setdefault(peer, {})
            if stream in streams:
                streams[stream].close()
            streams[stream] = channel.sock
            if len(streams) == self.streams_with(peer):
                self.linked.add(peer)
            return
        self.linked.add(peer)
        self.inboxes[peer] = inbox
        pid, _, _ = struct.unpack("3i", channel.sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        if pid:  # 0: in another PID namespace
            self.pids[peer] = pid

    def drop(self, peer: int) -> None:
        self.linked.discard(peer)
        for sock in self.sockets.pop(peer, {}).values():
            sock.close()
        if peer in self.inboxes:
            os.close(self.inboxes.pop(peer))
            self.pids.pop(peer, None)

    def close(self) -> None:
        for peer in range(self.size):
            self.drop(peer)

    # Agreement

    def watch(self, rank: int) -> Talk[None]:
        """What comes over control meanwhile, on rank 0 from a rank, elsewhere from rank 0. A death is raised."""
        while self.verdict is None:
            frame = yield from self.control.read(rank, *((Kind.STOP, Kind.VERDICT) if self.rank else (Kind.WIRED,)))
            if frame.kind is Kind.VERDICT:
                self.verdict = frame.body
            elif frame.kind is Kind.STOP:
                self.stopped = True
            elif frame.kind is Kind.WIRED:
                self.rows[rank] = frame.body
                self.stopped |= not frame.body.get("complete")

    def report(self, loop: Loop, deadline: float) -> dict[str, Any]:
        loop.start(self.control.post(0, Kind.WIRED, self.row()))
        try:
            loop.run(lambda: self.verdict is not None, max(deadline, monotonic()) + 3 * GRACE)
        except TimeoutError:
            raise DeadlineExceeded(
                f"{self.cards[self.rank]} heard nothing from {self.cards[0]} after it was wired"
            ) from None
        assert self.verdict is not None
        return self.verdict

    def collect(self, loop: Loop, deadline: float) -> dict[str, Any]:
        self.rows[0] = self.row()
        self.stopped |= not self.complete()
        with suppress(TimeoutError):
            loop.run(lambda: self.stopped or len(self.rows) == self.size, max(deadline, monotonic()) + GRACE)
        if len(self.rows) < self.size:
            for rank in self.control.channels:
                if rank not in self.rows:
                    loop.start(self.control.post(rank, Kind.STOP, {}))
            with suppress(TimeoutError):
                loop.run(lambda: len(self.rows) == self.size, monotonic() + GRACE)
        if len(self.rows) == self.size and all(row.get("complete") for row in self.rows.values()):
            return {"traced": any(row.get("traced") for row in self.rows.values())}
        failed = any(row.get("failures") for row in self.rows.values())
        message = describe_reach(self.cards, self.rows, self.settings.start_timeout)
        return {"error": "ConfigError" if failed else "DeadlineExceeded", "message": message}

    def row(self) -> dict[str, Any]:
        marks = (
            SELF if peer == self.rank
            else SHARED if peer in self.inboxes
            else WIRED if peer in self.linked
            else FAILED if peer in self.failures
            else PENDING
            for peer in range(self.size)
        )  # fmt: skip
        known = self.linked | set(self.failures)
        pending = {str(peer): text for peer, text in self.trying.items() if peer not in known}
        failures = {str(peer): text for peer, text in self.failures.items()}
        facts = {"complete": self.complete(), "row": "".join(marks), "traced": bool(self.settings.trace)}
        return facts | {"failures": failures, "pending": pending}

    def wiring(self) -> Wiring:
        if not self.inboxes:
            self.doors.close_inbox()
        inbox, self.doors.inbox = self.doors.inbox, None  # from here on it is the wiring's to close
        own = self.cards[self.rank]
        local = {self.rank, *self.inboxes}
        if self.doors.unix is None:  # nothing was tried that would show it
            local |= {card.rank for card in self.cards if card.shares_host_with(own)}
        local_ranks = sorted(local)
        told = self.settings.local_rank
        return Wiring(
            rank=self.rank,
            size=self.size,
            local_rank=local_ranks.index(self.rank) if told is None else told,
            local_ranks=local_ranks,
            hosts=[card.host for card in self.cards],
            machines=[card.boot or card.host for card in self.cards],
            inbox=inbox,
            inboxes=self.inboxes,
            sockets={peer: [sock for _, sock in sorted(streams.items())] for peer, streams in self.sockets.items()},
            control=self.control,
            pids=self.pids,
            pairs=Counter(mark for rank, row in self.rows.items() for mark in str(row.get("row"))[:rank]),
            traced=self.traced,
            directory=self.directory,
            refuge=self.doors.refuge,
        )


def streams_between(one: Card, other: Card) -> int:
    """How many connections a pair makes: the lower number of those that the two were told.

    If neither was told: on one host a single connection was as fast as several. Between hosts, all packets of one
    connection take one queue of the network card, one core and one path of a bundle; two are the fewest that are not
    tied to that, and more cost memory and system calls on every network.
    """
    told = [card.streams for card in (one, other) if card.streams]
    return min(told) if told else 1 if one.shares_host_with(other) else 2


def describe_reach(cards: list[Card], rows: dict[int, dict[str, Any]], seconds: float) -> str:
    """Who could reach whom: first the reasons, then the matrix by rank."""
    lines = ["the ranks could not all be linked:"]
    for kind, suffix in (("failures", ""), ("pending", f" for {seconds:g} s")):
        for rank, row in sorted(rows.items()):
            for peer, text in list(row.get(kind, {}).items())[:8]:
                lines.append(f"  {cards[rank]} to {cards[int(peer)]}: {text}{suffix}")
    lines[21:] = [f"  and {len(lines) - 21} more"] if len(lines) > 21 else []
    if (size := len(cards)) <= 64:
        width = len(str(size - 1))
        lines.append("  " + " ".join(["from", *(f"{rank:>{width}}" for rank in range(size))]))
        for rank in range(size):
            marks = rows.get(rank, {}).get("row", PENDING * size)
            lines.append("  " + " ".join([f"{rank:>4}", *(f"{mark:>{width}}" for mark in marks)]))
        lines.append(f"  {SHARED} shared memory, {WIRED} TCP, {FAILED} failed, {PENDING} not yet")
    return "\n".join(lines)


def mapped(frame: Frame) -> int:
    """The descriptor that came with a frame, after a mapping of it has succeeded."""
    try:
        if len(frame.descriptors) != 1:
            raise Garbled("no descriptor came through")
        size = os.fstat(frame.descriptors[0]).st_size
        mmap.mmap(frame.descriptors[0], min(size, mmap.PAGESIZE)).close()
    except (OSError, ValueError) as error:
        close_descriptors(frame.descriptors)
        raise Garbled(f"its memory cannot be mapped: {error}") from None
    except BaseException:
        close_descriptors(frame.descriptors)
        raise
    return frame.descriptors[0]
