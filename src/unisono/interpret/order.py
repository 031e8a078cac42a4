"""Who has to wait for whom, when several ranks read and write the same memory.

Two accesses to one location conflict unless both only read. Conflicting steps of different ranks need a wait, except
where it follows from other waits: a vector clock per rank (Mattern 1989) tells how far it knows the others to be.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

ENTERED = -1
"""The event before a rank's first step: it is in the call, and its memory may be used."""

_UNKNOWN = -2


class Access(NamedTuple):
    """What one step of a rank does. Locations that are equal overlap, others do not."""

    rank: int
    reads: list[Hashable]
    writes: list[Hashable]
    owners: set[int]  # of memory that may only be used once its owner has entered
    keeps: frozenset[Hashable] = frozenset()  # of what it writes: what changes for nobody who has read it before


class Event(NamedTuple):
    """A rank has done one of its steps, counted from 0, or has entered."""

    rank: int
    step: int


@dataclass
class Order:
    """The waits of all steps, in the order of the steps; and what each rank knows in the end."""

    waits: list[list[Event]]
    event_of: list[Event]  # by step of the schedule
    clocks: list[list[int]]  # of each rank, at the end
    _at: dict[Event, list[int]] = field(default_factory=dict)

    def still_needed(self, rank: int, events: Iterable[Event], clock: list[int] | None = None) -> list[Event]:
        """Those of the events that this rank has to wait for; the clock learns from each wait."""
        clock = self.clocks[rank] if clock is None else clock
        needed = []
        for event in sorted({e for e in events if e.rank != rank}, key=lambda e: (-e.step, e.rank)):
            if clock[event.rank] < event.step:
                needed.append(event)
                clock[:] = map(max, clock, self._at[event])
        return needed


def order(accesses: list[Access], ranks: int) -> Order:
    """The waits that make every interleaving give what the steps give one after the other."""
    clocks = [[_UNKNOWN] * ranks for _ in range(ranks)]
    result = Order([], [], clocks)
    for rank, clock in enumerate(clocks):
        clock[rank] = ENTERED
        result._at[Event(rank, ENTERED)] = list(clock)
    writer: dict[Hashable, Event] = {}
    readers: dict[Hashable, list[Event]] = defaultdict(list)
    for access in accesses:
        rank, clock = access.rank, clocks[access.rank]
        before = {Event(owner, ENTERED) for owner in access.owners}
        before |= {writer[location] for location in (*access.reads, *access.writes) if location in writer}
        changes = [location for location in access.writes if location not in access.keeps]
        before |= {event for location in changes for event in readers[location]}
        result.waits.append(result.still_needed(rank, before))
        clock[rank] += 1
        event = Event(rank, clock[rank])
        result._at[event] = list(clock)
        result.event_of.append(event)
        for location in access.reads:
            readers[location].append(event)
        for location in access.writes:
            writer[location] = event
        for location in changes:
            readers[location] = []
    return result
