"""Which ranks failed only because another one had: they say so on a pipe before they end.

An exit code does not tell. `comm/verdict.py` is the other end.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress

from .rank import Rank


class Verdicts:
    """Owns the pipe; ranks inherit the end that is written to."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._victims: set[int] = set()
        self._rest = b""

    def descriptors(self) -> tuple[int, ...]:
        return (self._write,)

    def variables(self) -> dict[str, str]:
        # The number of a descriptor may mean something else in a rank's child; the number of the pipe does not.
        return {"UNISONO_VERDICTS": f"{self._write}/{os.fstat(self._write).st_ino}"}

    def innocence(self, rank: Rank) -> int:
        """Of ranks that failed, the one with the lowest is to blame."""
        self._take()
        if rank.number in self._victims:
            return 2
        return 1 if rank.returncode in (-signal.SIGINT, 128 + signal.SIGINT) else 0

    def is_victim(self, rank: Rank) -> bool:
        return self.innocence(rank) == 2

    def _take(self) -> None:
        with suppress(BlockingIOError):
            while data := os.read(self._read, 4096):
                *lines, self._rest = (self._rest + data).split(b"\n")
                self._victims.update(int(line) for line in lines if line.isdigit())

    def close(self) -> None:
        os.close(self._read)
        os.close(self._write)
