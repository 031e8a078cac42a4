"""Messages between two ranks of a group: in any order, by tag, from a known rank or from any.

The calls of a communicator run one after the other, and a message that nobody has taken yet would stop all that come
after it. So these go over connections of their own, which are served at a wheel: who sends to a rank for the
first time comes to its port with the key of the job, and finds that port in torch's store.
"""

from __future__ import annotations

import os
import secrets
import socket
import threading
from collections import deque
from collections.abc import Callable, Sequence
from ctypes import addressof, c_uint64
from time import monotonic
from typing import Any

import torch.distributed as dist
from torch import Tensor

from .._native import can_read_process, let_processes_read
from ..comm.conversation import Loop, Talk, connect, pause
from ..comm.fork import in_a_forked_child
from ..comm.frames import Channel, Closed, Garbled, describe
from ..comm.handshake import Secret, admit, introduce
from ..comm.refusals import Refused, Why
from ..comm.rendezvous import listen
from ..comm.sites import Sites
from ..comm.strangers import Strangers
from ..config import Settings, parse_address
from ..errors import MismatchError, PeerLost, UnisonoError
from .departures import why_gone
from .letter import Letter
from .sorting import Arrived, Sorting
from .wheel import Wheel
from .wire import Header, Kind, Wire

PURPOSE = "post"
SHORT = 1 << 16
"""Bytes that are sent before the receiver has room for them."""

LOOK = 0.05  # seconds between two looks whether a peer is lost or time is up
SOON = 0.002  # until the next look whether a rank has opened its post
GRACE = 1.0  # for the last words of a rank that is about to leave
SECONDS_TO_FINISH = 2.0


class Post:
    """Of one rank in one group. Its thread begins with the first message."""

    def __init__(
        self,
        settings: Settings,
        host: str,
        store: Any,
        failure: Callable[[], UnisonoError | None],
        members: Sequence[int],
    ) -> None:
        """The members are those of the group, as all ranks count."""
        self._members = members
        self._settings, self._host, self._store, self._failure = settings, host, store, failure
        self._secret = Secret(settings.job, settings.key.encode())
        self._sites = Sites()
        self._opening = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closing, self._closed = False, ""
        # From here on, all happens at the wheel.
        self._offers: dict[int, Letter] = {}
        self._to: dict[int, Wire] = {}  # that this rank has opened
        self._from: dict[int, Wire] = {}  # that the others have
        self._gone: dict[int, str] = {}
        self._calling: dict[int, deque[Letter]] = {}  # letters that wait for a connection
        self._numbers = 0
        self._word = c_uint64(secrets.randbits(64))  # who finds it is on this host, and may read
        self._looking = False

    def send(self, tensor: Tensor, to: int, tag: int, seconds: float) -> Letter:
        return self._begin(tensor, to, tag, self._send, sends=True, seconds=seconds)

    def receive(self, tensor: Tensor, source: int | None, tag: int, seconds: float) -> Letter:
        return self._begin(tensor, source, tag, self._receive, sends=False, seconds=seconds)

    def is_idle(self) -> bool:
        """Is no message under way?"""
        return self._thread is None or not self._sorting.under_way

    def close(self) -> None:
        """When what was sent has gone; what is awaited fails."""
        if self._thread:
            self._closing = True
            self._wheel.wake()
            self._thread.join()
            self._thread = None

    def _begin(
        self, tensor: Tensor, peer: int | None, tag: int, what: Callable[[Letter], None], *, sends: bool, seconds: float
    ) -> Letter:
        line = self._sites.name(self._sites.caller(depth=3))
        if self._thread is None and not self._closed:
            self._open()
        awaited = [] if peer is None else [self._members[peer]]
        letter = Letter(tensor, peer, tag, self._wheel, sends=sends, seconds=seconds, line=line, awaited=awaited)
        self._wheel.do(lambda: self._add(letter, what))
        return letter

    def _open(self) -> None:
        with self._opening:
            if self._thread:
                return
            self._store = self._store.clone()  # somebody may wait in it
            listener = listen(self._settings.bind or self._host, key=self._settings.key, ports=self._settings.ports)
            in_a_forked_child(listener, socket.socket.close)
            port = listener.getsockname()[1]
            where = f"[{self._host}]:{port}" if ":" in self._host else f"{self._host}:{port}"
            self._store.set(_place(self._settings.rank), where)
            self._loop = Loop()
            self._wheel = Wheel(self._loop)
            self._sorting = Sorting(self._settings.rank, self._wheel)
            strangers = Strangers(listener, settings=self._settings)
            self._wheel.do(lambda: strangers.serve(self._loop, self._admit))
            self._thread = threading.Thread(target=self._run, args=(listener,), name="unisono-post", daemon=True)
            self._thread.start()

    def _run(self, listener: socket.socket) -> None:
        """In the thread."""
        try:
            self._wheel.serve(lambda: self._closing)
            self._wheel.serve(self._has_sent_all, monotonic() + SECONDS_TO_FINISH)
        finally:  # after a fault of ours, too, or an interruption: nobody shall wait for ever because of it
            why = repr(self._wheel.fault) if self._wheel.fault else "this process group was destroyed"
            self._wheel.stop(lambda: self._end(f"the post of rank {self._settings.rank} is closed: {why}"))
            self._loop.close()
            listener.close()

    def _has_sent_all(self) -> bool:
        return not self._calling and all(wire.idle for wire in list(self._to.values()))

    # At the wheel

    def _end(self, why: str) -> None:
        self._closed = why
        for letter in list(self._sorting.under_way):
            self._sorting.end(letter, PeerLost(f"{letter}: {why}"))
        for wire in (*self._to.values(), *self._from.values()):
            wire.close()

    def _add(self, letter: Letter, what: Callable[[Letter], None]) -> None:
        if self._closed:
            letter.end(-1, PeerLost(f"{letter}: {self._closed}"))
            return
        self._sorting.under_way[letter] = None
        what(letter)
        if self._sorting.under_way and not self._looking:
            self._looking = True
            self._loop.start(self._look())

    def _look(self) -> Talk[None]:
        """Now and then, while somebody waits."""
        asked = monotonic()
        while self._sorting.under_way:
            yield pause(LOOK)
            failure, now = self._failure(), monotonic()
            for letter in [x for x in self._sorting.under_way if failure or x.until <= now]:
                self._sorting.end(letter, letter.failed(failure) if failure else letter.late())
            if now > asked + GRACE:
                asked = now
                self._miss_who_left()
        self._looking = False

    def _miss_who_left(self) -> None:
        """Of those that nobody here is connected with, and whose end nobody hears therefore."""
        others = [rank for rank in range(self._settings.size) if rank != self._settings.rank]
        awaited = {rank for x in self._sorting.under_way for rank in (others if x.peer is None else [x.peer])}
        for rank in awaited - {*self._to, *self._from, *self._gone, self._settings.rank}:
            if why := why_gone(self._store, rank):
                self._gone[rank] = why
        for letter in list(self._sorting.under_way):
            senders = others if letter.peer is None else [letter.peer]
            if not letter.sends and senders and all(rank in self._gone and rank not in self._from for rank in senders):
                self._lose(letter, senders[-1])

    def _send(self, letter: Letter) -> None:
        assert letter.peer is not None, "somebody gets it"
        if letter.peer == self._settings.rank:
            self._sorting.take(Arrived(None, letter.tag, bytearray(letter.room), len(letter.room)))
            self._sorting.end(letter, source=letter.peer)
        elif letter.peer in self._gone:
            self._lose(letter, letter.peer)
        elif wire := self._to.get(letter.peer):
            self._post(wire, letter)
        elif letter.peer in self._calling:
            self._calling[letter.peer].append(letter)
        else:
            self._calling[letter.peer] = deque([letter])
            self._loop.start(self._call(letter.peer))

    def _post(self, wire: Wire, letter: Letter) -> None:
        size = len(letter.room)
        if size <= SHORT:
            sent = lambda: self._sorting.end(letter, source=wire.peer)  # noqa: E731
            wire.write(Header(Kind.LETTER, letter.tag, 0, size), letter.room, sent)
        else:
            self._numbers += 1
            self._offers[self._numbers] = letter
            wire.write(Header(Kind.OFFER, letter.tag, self._numbers, size, letter.address))

    def _receive(self, letter: Letter) -> None:
        taken = self._sorting.receive(letter)
        if not taken and letter.peer in self._gone and letter.peer not in self._from:
            self._lose(letter, letter.peer)

    def _admit(self, channel: Channel) -> Talk[None]:
        guest = yield from admit(channel, self._secret, purpose=PURPOSE, rank=self._settings.rank)
        if not 0 <= guest.rank < self._settings.size or guest.rank in self._from:
            raise Refused(Why.PLACE, f"rank {guest.rank} comes twice, or is none of {self._settings.size}")
        wire = self._from[guest.rank] = Wire(channel.sock, guest.rank, self._loop)
        self._loop.start(self._hear(wire))

    def _hear(self, wire: Wire) -> Talk[None]:
        """What a rank says that has come to this one."""
        try:
            while True:
                header = yield from wire.read_header()
                if header.kind == Kind.LETTER:
                    yield from self._read_letter(wire, header)
                elif header.kind == Kind.OFFER:
                    self._sorting.take(Arrived(wire, header.tag, header.number, header.size, header.address))
                elif header.kind == Kind.BODY and (letter := self._sorting.cleared(wire.peer, header.number)):
                    yield from wire.read_into(letter.room, lambda letter=letter: letter.ended)  # type: ignore[misc]
                    self._sorting.through(wire.peer, header.number)
                elif header.kind == Kind.SETTLED and self._sorting.cleared(wire.peer, header.number):
                    self._sorting.through(wire.peer, header.number)
                elif header.kind == Kind.HOME:
                    wire.process = self._reads(header)
                elif header.kind == Kind.WITHDRAWN:
                    self._sorting.withdraw(wire.peer, header.number)
                else:
                    raise Closed("it sent what makes no sense")
        except Closed as error:
            del self._from[wire.peer]
            wire.close()
            vain = self._sorting.forget(wire)
            self._part_with(wire.peer, str(error), lambda letter: not letter.sends, vain)

    def _reads(self, home: Header) -> int:
        """The process whose memory can be read, if that is allowed and it is on this host: then its word is there."""
        is_here = self._settings.links in ("auto", "shm") and can_read_process(home.tag, home.address, home.number)
        return home.tag if is_here else 0

    def _read_letter(self, wire: Wire, header: Header) -> Talk[None]:
        if header.size > SHORT:
            raise Closed("it sent too long a letter")
        content = bytearray(header.size)
        yield from wire.read_into(memoryview(content))
        self._sorting.take(Arrived(wire, header.tag, content, header.size))

    def _call(self, peer: int) -> Talk[None]:
        """Connect with a rank, which may not have used its post yet, and send what waits for that."""
        try:
            while not self._store.check([_place(peer)]):
                yield pause(SOON)
                if all(letter.ended for letter in self._calling[peer]):  # they have given up
                    del self._calling[peer]
                    return
                if peer in self._gone:
                    raise Closed(self._gone[peer])
            channel = yield from self._connect(peer, self._store.get(_place(peer)).decode())
        except (OSError, Closed, Garbled, UnisonoError, dist.DistError) as error:
            self._gone[peer] = describe(error)
            for letter in self._calling.pop(peer):
                self._lose(letter, peer)
            return
        wire = self._to[peer] = Wire(channel.sock, peer, self._loop)
        let_processes_read()
        wire.write(Header(Kind.HOME, os.getpid(), self._word.value, 0, addressof(self._word)))
        for letter in self._calling.pop(peer):
            self._post(wire, letter)
        yield from self._listen(wire)

    def _connect(self, peer: int, place: str) -> Talk[Channel]:
        address, own = parse_address("its address", place), self._settings.rank
        family, _, _, _, target = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)[0]
        channel = Channel(socket.socket(family, socket.SOCK_STREAM))
        try:
            yield from connect(channel.sock, target)
            where = f"rank {peer} at {address}"
            yield from introduce(channel, self._secret, purpose=PURPOSE, rank=own, peer=peer, where=where)
        except BaseException:
            channel.close()
            raise
        return channel

    def _listen(self, wire: Wire) -> Talk[None]:
        """What a rank answers that this one has come to."""
        try:
            while True:
                header = yield from wire.read_header()
                letter = self._offers.pop(header.number, None)
                if letter is None or header.kind not in (Kind.CLEAR, Kind.READ, Kind.REFUSED):
                    raise Closed("it answered what was not asked")
                self._answer(wire, header, letter)
        except Closed as error:
            del self._to[wire.peer]
            wire.close()
            alone = wire.peer not in self._from
            self._part_with(wire.peer, str(error), lambda letter: letter.sends or alone)

    def _answer(self, wire: Wire, header: Header, letter: Letter) -> None:
        size = len(letter.room)
        if header.kind != Kind.REFUSED and letter.ended:
            wire.write(Header(Kind.WITHDRAWN, letter.tag, header.number, 0))
        elif header.kind == Kind.READ:
            wire.write(Header(Kind.SETTLED, letter.tag, header.number, size))
            self._sorting.end(letter, source=wire.peer)
        elif header.kind == Kind.CLEAR:
            sent = lambda: self._sorting.end(letter, source=wire.peer)  # noqa: E731
            wire.write(Header(Kind.BODY, letter.tag, header.number, size), letter.room, sent)
        else:
            error = MismatchError(f"{letter}: {size} bytes are sent, and rank {wire.peer} awaits {header.size}")
            error.ranks = (wire.peer,)
            self._sorting.end(letter, error)

    def _part_with(self, peer: int, why: str, affects: Callable[[Letter], bool], also: Sequence[Letter] = ()) -> None:
        self._gone[peer] = why
        for letter in [*also, *(x for x in self._sorting.under_way if x.peer == peer and affects(x))]:
            self._lose(letter, peer)

    def _lose(self, letter: Letter, peer: int) -> None:
        failure = self._failure()
        if failure is None:
            failure = PeerLost(f"rank {self._settings.rank} lost rank {peer}, which has ended: {self._gone[peer]}.")
            failure.ranks = (peer,)
        self._sorting.end(letter, letter.failed(failure))


def _place(rank: int) -> str:
    return f"post/{rank}"
