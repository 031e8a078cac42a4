"""How much may be on its way over TCP between ranks of one host."""

from __future__ import annotations

import os
import socket
from contextlib import suppress

from .wiring import Wiring

ON_ITS_WAY = 256 << 10
"""Bytes, of which the kernel takes twice as many."""


def keep_little_on_its_way(wiring: Wiring) -> None:
    """Where ranks share cores, what is sent lies in the kernel until its receiver runs.

    More than caches hold is slow to copy in and out. Between hosts, and for ranks with cores of their own, the kernel
    finds the size itself.
    """
    places = list(zip(wiring.hosts, wiring.machines, strict=True))
    if wiring.machines.count(wiring.machines[wiring.rank]) <= (os.cpu_count() or 1):
        return
    for peer, streams in wiring.sockets.items():
        if places[peer] == places[wiring.rank]:
            for each in streams:
                with suppress(OSError):  # it is slower, not wrong
                    each.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, ON_ITS_WAY)
