"""How far the clocks of the hosts are apart, for traces that are looked at together."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from pathlib import Path
from time import monotonic_ns
from typing import NamedTuple

from ..errors import PeerLost
from .control import Control

SAMPLES = 8


class Alignment(NamedTuple):
    """What all ranks that met have in common, and this one's clock."""

    run: str  # a random name of this meeting
    offset: int  # nanoseconds to add to this rank's clock to get rank 0's
    error: int  # nanoseconds that this may be wrong by


def align(
    control: Control, *, deadline: float, clock: Callable[[], int] = monotonic_ns, identity: str | None = None
) -> Alignment:
    """Compare all clocks with rank 0's, one rank after the other. Every rank has to call this.

    As NTP does: rank 0's answer was given about in the middle between question and answer. The fastest of several
    answers counts, because what makes the others slow is waiting on one of the two ways.
    """
    own = _identity() if identity is None else identity
    cards = control.exchange({"clock": own, "run": secrets.token_hex(8)}, deadline=deadline)
    run, first = str(cards[0]["run"]), cards[0]["clock"]
    if control.rank == 0:
        for rank, card in enumerate(cards):
            for _ in range(0 if card["clock"] == first else SAMPLES):
                control.receive(source=rank, deadline=deadline)
                control.send(clock(), to=rank, deadline=deadline)
    if own == first:
        return Alignment(run, 0, 0)
    round_trip, offset = min(_sample(control, clock, deadline) for _ in range(SAMPLES))
    return Alignment(run, offset, round_trip // 2)


def _sample(control: Control, clock: Callable[[], int], deadline: float) -> tuple[int, int]:
    """Round trip and offset."""
    asked = clock()
    control.send(None, deadline=deadline)
    theirs = control.receive(deadline=deadline)
    answered = clock()
    if not isinstance(theirs, int):
        raise PeerLost(f"{control.names[0]} was asked for its clock and sent {theirs!r}")
    return answered - asked, theirs - (asked + answered) // 2


def _identity() -> str:
    """The same for processes that have the same monotonic clock: that of a boot, in a time namespace."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return secrets.token_hex(8)  # nobody else's: it will be measured
    try:
        return f"{boot} {os.readlink('/proc/self/ns/time')}"
    except OSError:  # a kernel without time namespaces
        return boot
