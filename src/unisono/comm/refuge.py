"""A port that every rank keeps from the start, for the day on which others are lost and rank 0 may be one of them.

It is bound and does not listen: whoever tries it is refused by the system, until this rank calls ``shrink()``. Its
number is on the rank's card, so that survivors find each other, whoever of them is left.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress

from .addresses import WILDCARDS

BACKLOG = 1024


class Refuge:
    """Owns the socket."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.port: int = sock.getsockname()[1]

    @classmethod
    def reserve(cls, addresses: list[str], ports: range | None) -> Refuge | None:
        """On the only address, or on all that there are; None if no port is free among those that are allowed."""
        ipv6 = ":" in addresses[0]
        host = addresses[0] if len(addresses) == 1 else WILDCARDS[ipv6]
        for port in reversed(ports) if ports else [0]:  # doors take the first ones
            # Without SO_REUSEADDR: two sockets that have it may both bind to a port, and only one could listen.
            sock = socket.socket(socket.AF_INET6 if ipv6 else socket.AF_INET, socket.SOCK_STREAM)
            try:
                if ipv6:
                    sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                sock.bind((host, port))
                return cls(sock)
            except OSError:
                sock.close()
        return None

    def open(self) -> None:
        """From now on others can come."""
        self.sock.setblocking(False)
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
    """All descriptors of it stop; Linux keeps the port for them."""
    with suppress(OSError):
        sock.shutdown(socket.SHUT_RD)
