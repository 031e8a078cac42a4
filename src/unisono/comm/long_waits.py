"""Notices calls that take long, so that somebody can look into it."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic_ns

from .conversation import Talk, pause
from .incident import CallFacts
from .status import Whereabouts, facts_of

SUSPICIOUS = 1.0  # seconds after which the ranks' calls are compared: those that only wait for each other send nothing
LONG = 10.0  # seconds after which rank 0 says who is waited for
BETWEEN_LOOKS = 0.5

Tell = Callable[[str, list[int], CallFacts, float], None]
"""How long it is, who is waited for, in which call, and for how many seconds."""


def notice(whereabouts: Whereabouts, tell: Tell) -> Talk[None]:
    """Tells of each call that is suspicious, and when it is long, again and again: those that it waits for move on."""
    told: tuple[int, int] | None = None  # the number of a call, and how long it took, in waits that are long
    while True:
        yield pause(BETWEEN_LOOKS)
        record = whereabouts.running()
        if record is None:
            continue
        waited = (monotonic_ns() - record.began) / 1e9
        now = (record.number, int(waited / LONG))
        if waited >= SUSPICIOUS and told != now:
            told = now
            longest = max(record.peers, key=lambda peer: peer.waited, default=None)
            kind = "LongWait" if waited >= LONG else "SuspiciousWait"
            tell(kind, [longest.rank] if longest and longest.waited else [], facts_of(record), waited)
