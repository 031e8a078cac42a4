"""Where others can come to a rank while it is being wired: an abstract Unix socket and a TCP port."""

from __future__ import annotations

import os
import re
import secrets
import socket
from collections.abc import Callable

from ..config import Settings
from ..errors import ConfigError
from .handshake import log
from .rendezvous import BACKLOG, Card, boot_id, listen


class Doors:
    """Owns what it listens on, and the inbox that who comes to the Unix socket is given."""

    def __init__(self, settings: Settings, make_inbox: Callable[[int], int]) -> None:
        self.settings = settings
        self.unix: socket.socket | None = None
        self.tcp: socket.socket | None = None
        self.inbox: int | None = None
        if settings.links == "tcp":
            return
        try:
            self.inbox = make_inbox(settings.size)
            os.set_inheritable(self.inbox, False)
            self.unix = _listen_unix(settings)
        except OSError as error:
            self.close_inbox()
            if settings.links == "shm":
                raise ConfigError(
                    f"rank {settings.rank} on host {settings.host} cannot share memory, and UNISONO_LINKS=shm allows "
                    f"nothing else: {error}"
                ) from error
            log.debug("no shared memory: %s", error)

    def card(self, address: str) -> Card:
        """Opens the TCP door on the address that leads to the others."""
        settings = self.settings
        if settings.links != "shm":
            try:
                self.tcp = listen(address, key=settings.key, ports=settings.ports)
            except OSError as error:
                ports = settings.ports
                among = f" among UNISONO_PORTS={ports[0]}-{ports[-1]}" if ports else ""
                raise ConfigError(
                    f"rank {settings.rank} on host {settings.host} finds no port to listen on at {address}{among}: "
                    f"{error.strerror}"
                ) from None
        return Card(
            rank=settings.rank,
            size=settings.size,
            host=settings.host,
            pid=os.getpid(),
            boot=boot_id(),
            addresses=[address],
            port=self.tcp.getsockname()[1] if self.tcp else 0,
            unix=self.unix.getsockname()[1:].decode() if self.unix else "",
        )

    def close(self) -> None:
        for door in (self.unix, self.tcp):
            if door:
                door.close()

    def close_inbox(self) -> None:
        if self.inbox is not None:
            os.close(self.inbox)
            self.inbox = None


def _listen_unix(settings: Settings) -> socket.socket:
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
