"""A port that every rank keeps from the start, for the day on which others are lost and rank 0 may be one of them.

It is bound and does not listen: whoever tries it is refused by the system, until this rank calls ``shrink()``. Its
number is on the rank's card, so that survivors find each other, whoever of them is left.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import suppress

from .addresses import WILDCARDS
from .fork import in_a_forked_child

BACKLOG = 1024
ATTEMPTS = 100


class Refuge:
    """Owns the socket."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        in_a_forked_child(self, Refuge.close)
        self.port: int = sock.getsockname()[1]

    @classmethod
    def reserve(cls, addresses: list[str], ports: range | None) -> Refuge | None:
        """On the only address, or on all that there are; None if no port is free among those that are allowed."""
        host = addresses[0] if len(addresses) == 1 else WILDCARDS[":" in addresses[0]]
        for port in reversed(ports) if ports else _free_ports(host):  # doors take the first ones
            with suppress(OSError):
                return cls(_bind(host, port))
        return None

    def open(self) -> None:
        """From now on others can come."""
        self.sock.setblocking(False)
        # What is accepted here inherits it, and is not in the way when this rank listens a second time.
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.sock.listen(BACKLOG)

    def shut(self) -> None:
        """The port stays ours, and whoever comes is refused again."""
        stop_listening(self.sock)

    def listener(self) -> int:
        """A descriptor of its own for who listens here next."""
        return os.dup(self.sock.fileno())

    def close(self) -> None:
        self.sock.close()


def stop_listening(sock: socket.socket) -> None:
    """All descriptors of it stop; Linux keeps the port for them, if it is one that they asked for by its number."""
    with suppress(OSError):  # it does not listen
        sock.shutdown(socket.SHUT_RD)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)  # see _bind


def _bind(host: str, port: int) -> socket.socket:
    """Without SO_REUSEADDR: two sockets that have it may both bind to a port, and only one could listen."""
    ipv6 = ":" in host
    sock = socket.socket(socket.AF_INET6 if ipv6 else socket.AF_INET, socket.SOCK_STREAM)
    try:
        if ipv6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind((host, port))
    except BaseException:
        sock.close()
        raise
    return sock


def _free_ports(host: str) -> Iterator[int]:
    """Somebody else may be faster: then the next one."""
    for _ in range(ATTEMPTS):
        with _bind(host, 0) as probe:
            port: int = probe.getsockname()[1]
        yield port
