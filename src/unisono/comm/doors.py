"""Where others can come to a rank while it is being wired: an abstract Unix socket and a TCP port. And where they will
come when ranks are lost: a port that it keeps."""

from __future__ import annotations

import os
import re
import secrets
import socket
from collections.abc import Callable

from ..config import Settings
from ..errors import ConfigError
from .addresses import WILDCARDS, announced_addresses
from .conversation import Loop
from .fork import in_a_forked_child
from .refuge import Refuge
from .refusals import log
from .rendezvous import BACKLOG, Card, boot_id, listen
from .strangers import Serve, Strangers


class Doors:
    """Owns what it listens on, and the inbox that who comes to the Unix socket is given."""

    def __init__(self, settings: Settings, make_inbox: Callable[[int], int]) -> None:
        self.settings = settings
        self.strangers: dict[socket.socket, Strangers] = {}
        self.unix: socket.socket | None = None
        self.tcp: list[socket.socket] = []  # one port, on each address
        self.inbox: int | None = None
        in_a_forked_child(self, Doors.close)
        in_a_forked_child(self, Doors.close_inbox)
        self.refuge: Refuge | None = None
        if settings.links == "tcp":
            return
        try:
            self.inbox = make_inbox(settings.size)
            os.set_inheritable(self.inbox, False)
            self.unix = listen_unix(settings)
        except OSError as error:
            self.close_inbox()
            if settings.links == "shm":
                raise ConfigError(
                    f"rank {settings.rank} on host {settings.host} cannot share memory, and UNISONO_LINKS=shm allows "
                    f"nothing else: {error}"
                ) from error
            log.debug("no shared memory: %s", error)

    def card(self, way: str) -> Card:
        """Opens the TCP doors on the address that leads to rank 0 and on those of other networks."""
        settings = self.settings
        # Rank 0 has bound to UNISONO_BIND already, which may be a name; the others look whether they have that address.
        bind = way if settings.bind and settings.rank == 0 else settings.bind
        addresses = announced_addresses(way, bind)
        if settings.links != "shm":
            addresses = self.open(addresses, on_all=way if way in WILDCARDS else None)
        self.refuge = Refuge.reserve([way] if way in WILDCARDS else addresses, settings.ports)
        return Card(
            rank=settings.rank,
            size=settings.size,
            host=settings.host,
            pid=os.getpid(),
            boot=boot_id(),
            addresses=addresses,
            port=self.tcp[0].getsockname()[1] if self.tcp else 0,
            unix=self.unix.getsockname()[1:].decode() if self.unix else "",
            streams=settings.streams or 0,
            refuge=self.refuge.port if self.refuge else 0,
        )

    def open(self, addresses: list[str], on_all: str | None) -> list[str]:
        """Listens on these addresses; returns those where the port is free. The first has to be one of them."""
        settings = self.settings
        first = on_all or addresses[0]
        try:
            self.tcp.append(listen(first, key=settings.key, ports=settings.ports))
        except OSError as error:
            ports = settings.ports
            among = f" among UNISONO_PORTS={ports[0]}-{ports[-1]}" if ports else ""
            raise ConfigError(
                f"rank {settings.rank} on host {settings.host} finds no port to listen on at {first}{among}: "
                f"{error.strerror}"
            ) from None
        if on_all:
            return addresses
        opened = [first]
        for address in addresses[1:]:
            try:
                self.tcp.append(listen(address, self.tcp[0].getsockname()[1], key=settings.key))
                opened.append(address)
            except OSError as error:
                log.debug("%s is not announced: %s", address, error)
        return opened

    def collect(self, loop: Loop) -> None:
        """Until this rank knows whom to let in, who comes waits inside: peers may know earlier."""
        for door in self._all():
            self._at(door).collect(loop)

    def serve(self, loop: Loop, *, unix: Serve, tcp: Serve) -> None:
        for door in self._all():
            self._at(door).serve(loop, unix if door is self.unix else tcp)

    def close(self) -> None:
        """Nobody is expected any more; may be called twice."""
        for door in self._all():
            self._at(door).close()
            door.close()

    def close_refuge(self) -> None:
        if self.refuge:
            self.refuge.close()

    def _all(self) -> list[socket.socket]:
        return [*([self.unix] if self.unix else []), *self.tcp]

    def _at(self, door: socket.socket) -> Strangers:
        return self.strangers.setdefault(door, Strangers(door, settings=self.settings))

    def close_inbox(self) -> None:
        if self.inbox is not None:
            os.close(self.inbox)
            self.inbox = None


def listen_unix(settings: Settings) -> socket.socket:
    """An abstract name needs no file system and vanishes with its socket. It is no secret: /proc/net/unix has it."""
    job = re.sub(r"[^\w.-]", "_", settings.job, flags=re.ASCII)[:48]
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.bind(f"\0unisono-{job}-{settings.rank}-{secrets.token_hex(8)}")
        sock.listen(BACKLOG)
        sock.setblocking(False)
    except BaseException:
        sock.close()
        raise
    return sock
