"""A rank that ends because it lost another tells its launcher, which then does not take it for the cause."""

from __future__ import annotations

import os
import stat
import sys
from contextlib import suppress
from types import TracebackType

from ..errors import PeerLost

_told: set[str] = set()


def tell_launcher(pipe: str, rank: int) -> None:
    """From now on, if nobody catches a PeerLost, `rank` goes through the pipe: its descriptor, a slash, its inode."""
    descriptor = _adopt(pipe)
    if pipe in _told or descriptor is None:
        return
    _told.add(pipe)
    show, process = sys.excepthook, os.getpid()

    def tell_and_show(kind: type[BaseException], error: BaseException, at: TracebackType | None) -> None:
        if isinstance(error, PeerLost) and os.getpid() == process:  # and not a child of the rank
            with suppress(OSError):  # the launcher is gone
                os.write(descriptor, b"%d\n" % rank)
        show(kind, error, at)

    sys.excepthook = tell_and_show


def _adopt(pipe: str) -> int | None:
    """The descriptor, if it is still that pipe in this process; our own children do not get it."""
    number, _, inode = pipe.partition("/")
    try:
        state = os.fstat(int(number))
        if stat.S_ISFIFO(state.st_mode) and state.st_ino == int(inode):
            os.set_inheritable(int(number), False)
            return int(number)
    except (OSError, ValueError):
        pass
    return None
