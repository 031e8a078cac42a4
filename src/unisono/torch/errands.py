"""What the main thread waits for that is no call of a communicator: a new group, or a message.

So that a rank which waits here, and one that waits for it in something else, are told instead of waiting until the
time-out. Ranks are those of all.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from time import monotonic

from ..comm.incident import Errand
from ..comm.status import is_alone

_now: tuple[Errand, float] | None = None


@contextmanager
def waiting_in(what: str, where: str, key: str, ranks: Sequence[int]) -> Iterator[None]:
    """Other threads may do what this one waits for, so that only the main one is spoken of."""
    global _now
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before, _now = _now, (Errand(what, where, key, list(ranks)), monotonic())
    try:
        yield
    finally:
        _now = before


def errand_among(members: Sequence[int]) -> Errand | None:
    """The one of now, with ranks as a group of these members counts them."""
    if (now := _now) is None or not is_alone():
        return None
    errand, begun = now
    ranks = [members.index(rank) for rank in errand.ranks if rank in members]
    return replace(errand, ranks=ranks, since=monotonic() - begun)
