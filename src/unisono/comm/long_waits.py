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
    """Tells once of each call that is suspicious, and once more when it is long."""
    told: set[tuple[int, str]] = set()  # of one call: its number, and what
    while True:
        yield pause(BETWEEN_LOOKS)
        record = whereabouts.running()
        if record is None:
            continue
        waited = (monotonic_ns() - record.began) / 1e9
        for kind, least in (("SuspiciousWait", SUSPICIOUS), ("LongWait", LONG)):
            if waited >= least and (record.number, kind) not in told:
                told = {other for other in told if other[0] == record.number} | {(record.number, kind)}
                longest = max(record.peers, key=lambda peer: peer.waited, default=None)
                tell(kind, [longest.rank] if longest and longest.waited else [], facts_of(record), waited)
