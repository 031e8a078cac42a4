"""Where a process listens, as the system sees it."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress

Door = tuple[str, int] | str
"""An address and a port, or the name of an abstract Unix socket with its leading zero."""

_LISTENING = "0A"
_ACCEPTS = 0x10000  # __SO_ACCEPTCON


def doors_of(pids: Iterable[int]) -> list[Door]:
    """All doors of these processes; those that have ended have none."""
    inodes = {inode for pid in pids for inode in _socket_inodes(pid)}
    return [door for inode, door in _listening() if inode in inodes]


def _socket_inodes(pid: int) -> Iterator[str]:
    with suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                link = os.readlink(f"/proc/{pid}/fd/{name}")
                if link.startswith("socket:["):
                    yield link[len("socket:[") : -1]


def _listening() -> Iterator[tuple[str, Door]]:
    for family, file in ((socket.AF_INET, "/proc/net/tcp"), (socket.AF_INET6, "/proc/net/tcp6")):
        with open(file) as lines:
            next(lines)
            for line in lines:
                columns = line.split()
                if columns[3] != _LISTENING:  # those that listen come first; there may be thousands of others
                    break
                address, _, port = columns[1].partition(":")
                yield columns[9], (_text(family, address), int(port, 16))
    with open("/proc/net/unix") as lines:
        next(lines)
        for line in lines:
            columns = line.split()
            if int(columns[3], 16) & _ACCEPTS and len(columns) > 7:
                yield columns[6], columns[7].replace("@", "\0", 1)


def _text(family: int, digits: str) -> str:
    words = [int(digits[i : i + 8], 16) for i in range(0, len(digits), 8)]
    return socket.inet_ntop(family, struct.pack(f"={len(words)}I", *words))
