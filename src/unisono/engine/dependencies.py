"""Which operations wait for which: the same arithmetic for those under way and for those that are over."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

READ, MUTATE, ACCUMULATE = range(3)
"""As in native/engine/operation.hpp."""

MODES = ("reads", "mutates", "accumulates")
STATES = ("waits", "may run", "runs", "is over")


class Touch(NamedTuple):
    """What an operation does with a variable."""

    variable: int
    name: str
    mode: int


class Hold(NamedTuple):
    """So much of a lane, or its turn among those that accumulate a variable."""

    lane: int
    amount: int
    capacity: int


class Entry(NamedTuple):
    """An operation. Times are nanoseconds of the monotonic clock, 0 for what has not been yet."""

    serial: int
    name: str
    where: str
    touches: tuple[Touch, ...]
    state: int = 0  # of STATES
    pushed: int = 0
    ready: int = 0
    begun: int = 0
    ended: int = 0
    thread: int = -1
    failed: bool = False
    holds: tuple[Hold, ...] = ()


class Dependency(NamedTuple):
    """One operation waits for another, because of a variable."""

    before: int
    after: int
    variable: str


@dataclass
class _Queue:
    """What a variable was used for, up to a point in the order of pushes."""

    writers: list[int] = field(default_factory=list)  # one that mutates, or a run of those that accumulate
    accumulates: bool = False
    before: list[int] = field(default_factory=list)  # that run
    readers: list[int] = field(default_factory=list)  # since

    def waits_for(self, serial: int, mode: int) -> list[int]:
        if mode == READ:
            self.readers.append(serial)
            return self.writers
        if mode == ACCUMULATE and self.accumulates and not self.readers:
            self.writers.append(serial)
            return self.before
        self.before = self.readers or self.writers
        self.writers, self.readers, self.accumulates = [serial], [], mode == ACCUMULATE
        return self.before


def dependencies(entries: Iterable[Entry]) -> list[Dependency]:
    """All that are not implied by others in the same variable. The entries are in the order of pushes."""
    queues: dict[int, _Queue] = {}
    found = []
    for entry in entries:
        for touch in entry.touches:
            before = queues.setdefault(touch.variable, _Queue()).waits_for(entry.serial, touch.mode)
            found += [Dependency(serial, entry.serial, touch.name) for serial in before if serial != entry.serial]
    return found


def handovers(entries: Iterable[Entry]) -> list[tuple[int, int]]:
    """Who had to wait for whom in a lane: when the first one ended, there was no room for the other besides it. Of
    operations that are over, in the order in which they ran."""
    found = []
    holders: dict[int, list[tuple[Entry, int]]] = {}
    for entry in entries:
        for lane, amount, capacity in entry.holds:
            before = holders.setdefault(lane, [])
            room = capacity - amount
            for other, taken in sorted(before, key=lambda each: each[0].ended, reverse=True):
                room -= taken
                if room < 0:
                    found.append((other.serial, entry.serial))
                    before[:] = [each for each in before if each[0].ended >= other.ended]
                    break
            before.append((entry, amount))
    return found


def levels(entries: Sequence[Entry], edges: Iterable[Dependency]) -> dict[int, int]:
    """How many operations come before each one at least, one after the other."""
    level = dict.fromkeys((entry.serial for entry in entries), 0)
    for edge in sorted(edges, key=lambda edge: edge.after):
        level[edge.after] = max(level[edge.after], level[edge.before] + 1)
    return level
