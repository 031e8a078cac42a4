"""The ranks meet: everybody comes to rank 0, leaves a card, and goes with the cards of all.

Rank 0 listens on the loopback interface, or where the rendezvous address says; then a job key is needed, because
strangers can come. Who does not fit (another size, a rank that is taken) is told so and turned away, and the others go
on waiting. Who dies while the others wait ends the meeting for all. Rank 0 is a member like any other; there are no
threads.
"""

from __future__ import annotations

import errno
import os
import secrets
import socket
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, fields
from time import monotonic
from typing import Any, NoReturn, Protocol

from ..config import Address, Settings
from ..errors import ConfigError, DeadlineExceeded, PeerLost, UnisonoError
from .addresses import is_loopback
from .control import Control
from .conversation import Loop, Talk, connect, hold
from .fork import in_a_forked_child
from .frames import Channel, Closed, Frame, Garbled, Kind, describe
from .handshake import Secret, admit, introduce
from .refusals import Refused, Why
from .strangers import Strangers

BACKLOG = 1024
GRACE = 2.0  # for the word of rank 0 that time is up, beyond that time


@dataclass(frozen=True)
class Card:
    """Who a rank is, and where it can be reached."""

    rank: int
    size: int
    host: str
    pid: int
    boot: str
    addresses: list[str]
    port: int  # 0: not by TCP
    unix: str  # "": not by a Unix socket
    streams: int  # connections that it wants with a peer; 0: it was not told
    refuge: int  # the port where it will listen after others are lost; 0: none was free

    def __str__(self) -> str:
        return f"rank {self.rank} (host {self.host}, pid {self.pid})"

    def shares_host_with(self, other: Card) -> bool:
        """As far as names tell; whether they share memory is tried."""
        return (self.host, self.boot) == (other.host, other.boot)

    @classmethod
    def read(cls, frame: Frame, body: object) -> Card:
        if not isinstance(body, dict):
            raise Garbled("a card that is no object")
        card = Frame(frame.kind, body)
        kinds = {"int": int, "str": str, "list[str]": list}
        return cls(**{x.name: card.get(x.name, kinds[str(x.type)]) for x in fields(cls)})


@dataclass(frozen=True)
class Directory:
    """The cards of all ranks, and what only these ranks know."""

    cards: list[Card]
    secret: Secret


def boot_id() -> str:
    """The same in all processes of a host until it reboots."""
    with suppress(OSError), open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip()
    return ""


def listen(host: str, port: int = 0, *, key: str, ports: range | None = None) -> socket.socket:
    """A listening socket on an address of this machine. A launcher may let port 0 be any free one, and pass it on."""
    why: OSError = OSError(errno.EADDRNOTAVAIL, "no such address")
    for family, address in _resolve(host, port):
        _need_key(address, key)
        for number in [port] if ports is None else ports:
            sock = socket.socket(family, socket.SOCK_STREAM)
            try:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                sock.bind((address[0], number, *address[2:]))
                sock.listen(BACKLOG)
            except OSError as error:
                sock.close()
                why = error
            else:
                sock.setblocking(False)
                return sock
    raise why


class Reception(Protocol):
    """What a rank does while others meet: it shows how it can be reached, and lets who comes too early wait."""

    def card(self, way: str) -> Card:
        """For the local address that leads to rank 0."""

    def collect(self, loop: Loop) -> None: ...


def open_meeting(settings: Settings) -> socket.socket | None:
    """What rank 0 listens on until all have come; nothing elsewhere."""
    if settings.rank:
        return None
    listener = _listen_for_job(settings, settings.meeting_point())
    in_a_forked_child(listener, socket.socket.close)
    return listener


def meet(
    settings: Settings, listener: socket.socket | None, doors: Reception, witnesses: Sequence[Talk[None]] = ()
) -> tuple[Control, Directory]:
    """Comes to the meeting with a card; goes with everybody's.

    What a witness of rank 0's raises meanwhile ends the meeting for all.
    """
    secret = Secret(settings.job, settings.key.encode())
    deadline = monotonic() + settings.start_timeout
    if listener is None:
        return _attend(settings, settings.meeting_point(), secret, doors, deadline)
    return _Meeting(settings, secret, doors, deadline, listener).hold(witnesses)


class _Meeting:
    """Rank 0's side."""

    def __init__(
        self,
        settings: Settings,
        secret: Secret,
        doors: Reception,
        deadline: float,
        listener: socket.socket,
    ) -> None:
        self.settings = settings
        self.secret = secret
        self.deadline = deadline
        self.doors = doors
        self.listener = listener
        self.address = Address(*listener.getsockname()[:2])
        self.strangers = Strangers(listener, settings=settings)
        self.cards = {0: doors.card(self.address.host)}
        self.channels: dict[int, Channel] = {}
        self.turned_away: Counter[str] = Counter()

    def hold(self, witnesses: Sequence[Talk[None]]) -> tuple[Control, Directory]:
        size = self.settings.size
        with ExitStack() as on_failure:
            on_failure.callback(self.close)
            try:
                with Loop() as loop:
                    self.doors.collect(loop)
                    self.strangers.serve(loop, lambda channel: self.serve(loop, channel))
                    for witness in witnesses:
                        loop.start(witness)
                    loop.run(lambda: len(self.cards) == size, self.deadline)
                self.listener.close()  # all have come: who comes now is nobody's
                cards = [self.cards[rank] for rank in range(size)]
                session = secrets.token_hex(16)
                control = Control(0, [str(card) for card in cards], self.channels)
                body = {"session": session, "cards": [asdict(card) for card in cards]}
                with Loop() as loop:
                    tasks = [loop.start(control.post(rank, Kind.DIRECTORY, body)) for rank in self.channels]
                    loop.run(lambda: all(task.done for task in tasks), self.deadline)
            except TimeoutError:
                self.fail(DeadlineExceeded(self.missing()))
            except UnisonoError as error:
                self.fail(error)
            except BaseException:
                Control(0, [""], self.channels).abort(PeerLost(f"{self.cards[0]} was interrupted in the rendezvous"))
                raise
            on_failure.pop_all()
        return control, Directory(cards, self.secret.derive(session))

    def serve(self, loop: Loop, channel: Channel) -> Talk[None]:
        """One who comes: it is let in with its card, told why not, or dropped."""
        try:
            rank = (yield from admit(channel, self.secret, purpose="control", rank=0)).rank
        except Refused as error:
            self.note(f"a connection was refused: {error}")
            raise
        frame = yield from channel.receive(Kind.CARD)
        card = Card.read(frame, frame.body)
        if objection := self.objection(rank, card):
            self.note(objection)
            yield from channel.send(Kind.REFUSED, {"message": objection})
            raise Refused(Why.PLACE, objection)
        _keep_alive(channel.sock)
        yield from channel.send(Kind.ACCEPTED, {"seconds": max(0.0, self.deadline - monotonic())})
        if rank in self.cards:  # another one came meanwhile
            raise Refused(Why.PLACE, f"{card} is a duplicate")
        self.cards[rank] = card
        self.channels[rank] = channel
        loop.start(self.watch(card, channel))

    def objection(self, rank: int, card: Card) -> str:
        own, size = self.cards[0], self.settings.size
        if card.size != size:
            return f"{card} was started with world size {card.size}, {own} with {size}: both need the same UNISONO_SIZE"
        if card.rank != rank or not 0 <= rank < size:
            return f"{card} came to {own}, but its ranks are 0 to {size - 1}"
        if rank in self.cards:
            return f"{card} is a duplicate of {self.cards[rank]}: every process needs its own UNISONO_RANK"
        return ""

    def watch(self, card: Card, channel: Channel) -> Talk[None]:
        """It has nothing to say now: what comes is its failure, or its end."""
        control = Control(0, [str(self.cards[0]), *[str(card)] * card.rank], {card.rank: channel})
        try:
            yield from control.read(card.rank)
        except PeerLost as error:
            raise PeerLost(f"{error}, while rank 0 waited for {name_ranks(self.absent())}") from None

    def absent(self) -> list[int]:
        return [rank for rank in range(self.settings.size) if rank not in self.cards]

    def missing(self) -> str:
        absent, size = self.absent(), self.settings.size
        notes = "".join(f"\n  {note}{f' ({n} times)' * (n > 1)}" for note, n in self.turned_away.items())
        return (
            f"{name_ranks(absent)} of {size} did not come to {self.cards[0]}, which listened on {self.address} for "
            f"{self.settings.start_timeout:g} s{notes}"
        )

    def note(self, text: str) -> None:
        if text in self.turned_away or len(self.turned_away) < 8:
            self.turned_away[text] += 1

    def close(self) -> None:
        for channel in self.channels.values():
            channel.close()

    def fail(self, error: UnisonoError) -> NoReturn:
        Control(0, [""] * self.settings.size, self.channels).abort(error)
        raise error


def _attend(
    settings: Settings, point: Address, secret: Secret, doors: Reception, deadline: float
) -> tuple[Control, Directory]:
    """The side of everybody else: tries until rank 0 is there."""
    me = f"rank {settings.rank} (host {settings.host}, pid {os.getpid()})"
    where = f"rank 0 at {point}"
    channel = _reach(settings, point, secret, me, deadline)
    control = Control(settings.rank, [where, *[me] * settings.rank], {0: channel})
    with ExitStack() as on_failure:
        on_failure.callback(control.close)
        try:
            frame = _present(control, doors, deadline)
            cards = [Card.read(frame, body) for body in frame.get("cards", list)]
            session = frame.get("session", str)
        except TimeoutError:
            raise DeadlineExceeded(
                f"{me} came to {where}, and was not answered in {settings.start_timeout:g} s"
            ) from None
        except Garbled as error:
            raise ConfigError(f"{where} sent {me} what makes no sense: {error}") from None
        if [card.rank for card in cards] != list(range(settings.size)):
            raise ConfigError(f"{where} sent {me} a directory that is not of {settings.size} ranks")
        # The way to rank 0 is known; what it believes its address to be may not lead there.
        cards[0].addresses.insert(0, channel.sock.getpeername()[0])
        control.names[:] = [str(card) for card in cards]
        control.size = len(cards)
        on_failure.pop_all()
    return control, Directory(cards, secret.derive(session))


def _present(control: Control, doors: Reception, deadline: float) -> Frame:
    """The card for the directory."""
    card = doors.card(control.channels[0].sock.getsockname()[0])
    hold(control.post(0, Kind.CARD, asdict(card)), deadline)
    accepted = hold(control.read(0, Kind.ACCEPTED), deadline)
    if accepted.kind is Kind.REFUSED:
        raise ConfigError(str(accepted.body.get("message")))
    # Rank 0 knows who is missing: it is the one whose time counts.
    patience = min(accepted.get("seconds", float), 1e6) + GRACE
    return hold(control.read(0, Kind.DIRECTORY), monotonic() + patience, beside=doors.collect)


def _reach(settings: Settings, point: Address, secret: Secret, me: str, deadline: float) -> Channel:
    """A channel to rank 0, which may start later than we do."""
    why, delay = "nobody answered", 0.005
    while monotonic() < deadline:
        try:
            for family, address in _resolve(point.host, point.port):
                _need_key(address, settings.key)
                try:
                    return hold(_call(family, address, secret, settings.rank, point), deadline)
                except (OSError, Closed, Garbled) as error:
                    if settings.open and isinstance(error, ConnectionRefusedError):
                        raise PeerLost(f"{me} lost rank 0: nobody listens at {point} any more") from None
                    why = describe(error) or why
        except socket.gaierror as error:
            why = f"the name cannot be resolved: {error.strerror}"
        time.sleep(max(0.0, min(delay, deadline - monotonic())))
        delay = min(0.2, delay * 1.5)
    raise DeadlineExceeded(
        f"{me} could not reach rank 0 at {point} in {settings.start_timeout:g} s: {why}. "
        "Has rank 0 started, and is this its address (UNISONO_RENDEZVOUS)?"
    )


def _call(family: int, address: Any, secret: Secret, rank: int, point: Address) -> Talk[Channel]:
    channel = Channel(socket.socket(family, socket.SOCK_STREAM))
    try:
        yield from connect(channel.sock, address)
        _keep_alive(channel.sock)
        yield from introduce(channel, secret, purpose="control", rank=rank, peer=0, where=f"rank 0 at {point}")
    except BaseException:
        channel.close()
        raise
    return channel


def _listen_for_job(settings: Settings, point: Address) -> socket.socket:
    if settings.listener is not None and (inherited := _adopt(settings.listener, point)):
        return inherited
    address = Address(settings.bind or point.host, point.port)
    patience = monotonic() + min(1.0, settings.start_timeout)
    while True:
        try:
            return listen(*address, key=settings.key)
        except socket.gaierror as error:
            raise ConfigError(f"rank 0 cannot listen on {address}: the name cannot be resolved: {error}") from None
        except OSError as error:
            if error.errno == errno.EADDRINUSE and monotonic() < patience:  # a rank that came too early met itself
                time.sleep(0.02)
                continue
            hint = {
                errno.EADDRINUSE: "set UNISONO_RENDEZVOUS to another port",
                errno.EADDRNOTAVAIL: f"host {settings.host} does not have it; set UNISONO_RENDEZVOUS to one "
                "that it has, or UNISONO_BIND to where to listen",
            }.get(error.errno or 0, "set UNISONO_RENDEZVOUS to another address")
            raise ConfigError(f"rank 0 cannot listen on {address}: {describe(error)}: {hint}") from None


def _adopt(descriptor: int, point: Address) -> socket.socket | None:
    """The launcher's listening socket; None if that number means something else by now."""
    try:
        sock = socket.socket(fileno=descriptor)
    except OSError:
        return None
    with suppress(OSError):
        listening = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
        if listening and sock.family in (socket.AF_INET, socket.AF_INET6) and sock.getsockname()[1] == point.port:
            sock.set_inheritable(False)
            sock.setblocking(False)
            return sock
    sock.detach()
    return None


def _resolve(host: str, port: int) -> list[tuple[int, Any]]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [(family, address) for family, _, _, _, address in found]


def _need_key(address: Any, key: str) -> None:
    if not key and not is_loopback(address[0]):
        raise ConfigError(
            f"{Address(*address[:2])} can be reached from the network, which needs a job key: set the same UNISONO_KEY "
            "on every rank"
        )


def _keep_alive(sock: socket.socket) -> None:
    """A host that vanishes without a word is noticed within 4 s, by the system, however busy the processes are.

    Not for links: there, a peer that computes and takes nothing for long is no failure.
    """
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 4000)


def name_ranks(ranks: list[int]) -> str:
    shown = ", ".join(map(str, ranks[:16])) + (f" and {len(ranks) - 16} more" if len(ranks) > 16 else "")
    return f"rank {shown}" if len(ranks) == 1 else f"ranks {shown}"
