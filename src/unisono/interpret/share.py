"""From a schedule to programs for ranks that share memory.

A program *combines* (some sources into some targets, in anybody's memory), *signals* (this rank has come so far) and
*waits* (until another one has). ``lower`` has the programs for links that carry bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from ..schedule.schedule import Schedule
from .combines import Combine, Combining, Home
from .lower import Area
from .order import ENTERED, Access, Event, order
from .shelves import shelve

Numbers = NDArray[np.int32]
BlockNumbers = NDArray[np.int64]


class Kind(IntEnum):
    """What an instruction does, and its other columns."""

    WAIT = 0  # peer, step, when
    SIGNAL = 1  # step, when
    COMBINE = 2  # block, first reference, sources, targets
    PUBLISH = 3  # place: copy a block of the input to where others read it, if they cannot read the input itself
    FETCH = 4  # place, block, place: copy the output from where it is staged, if others cannot write to it themselves


class When(IntEnum):
    """Waits at the end of a program depend on what the others used."""

    ALWAYS = 0
    INPUT_LENT = 1  # they read the caller's input itself, which may not change before they have
    OUTPUT_LENT = 2  # they read the caller's output itself
    REUSED = 3  # the program runs again at once, on the same slots


@dataclass(frozen=True)
class SharedProgram:
    """What one rank does, for blocks of any size."""

    rank: int
    blocks: BlockNumbers  # the schedule's number of each of the program's blocks
    places: Numbers  # a row each: rank, area, block (or slot), entry of that rank's stage (-1: none)
    rows: Numbers  # kind and four columns
    references: Numbers  # numbers of places
    stages: list[BlockNumbers]  # by rank: the block of every entry of its stage, the slots first
    slots: list[int]  # by rank: how many of the entries are slots
    steps: int  # the most that any rank signals
    round_of: Numbers  # the schedule's round of each row, from 0: see _Writing
    rounds: int  # of the schedule
    sums_at_once: bool  # on all ranks, which all get the sum: what is combined of several are the inputs of all


def share(schedule: Schedule, rank: int) -> SharedProgram:
    """The program of one rank. Input and output of a rank may be in one place or apart, as each rank likes."""
    return _Writing(_sharing_of(schedule), rank).program()


def share_all(schedule: Schedule) -> list[SharedProgram]:
    """The programs of all ranks."""
    sharing = _sharing_of(schedule)
    return [_Writing(sharing, rank).program() for rank in range(schedule.p)]


def _sharing_of(schedule: Schedule) -> _Sharing:
    combining = Combining(schedule)
    combining.run()
    return _Sharing(combining)


class _Sharing:
    """What the programs of all ranks have in common."""

    def __init__(self, combining: Combining) -> None:
        self.combining = combining
        shelves = shelve(combining)
        self.shelves = shelves.blocks
        self.fetches = {id(fetch) for fetch in shelves.fetches}
        self.combines = [*combining.steps, *shelves.fetches]
        self.sums_at_once = combining.schedule.collective.name in ("allreduce", "reduce_scatter") and all(
            len(combine.sources) == 1 or _is_of_all(combine, combining.schedule.p) for combine in combining.steps
        )
        fetched = {home for fetch in shelves.fetches for home in fetch.targets}
        ranks = range(combining.schedule.p)
        self.used_by_others: list[set[Home]] = [set() for _ in ranks]  # inputs and outputs, by their owners
        for combine in self.combines:
            for home in (*combine.sources, *combine.targets):
                if home.rank != combine.rank and home.area in (Area.IN, Area.OUT) and home not in fetched:
                    self.used_by_others[home.rank].add(home)
        self.stage_entries = [self._stage(rank) for rank in ranks]
        self.ordered = order([self._access(combine) for combine in self.combines], len(ranks))
        self.last_waits = [list(self._last_waits(rank, uses)) for rank, uses in enumerate(self._uses_by_others())]
        awaited = {event for waits in self.ordered.waits for event in waits}
        awaited |= {event for waits in self.last_waits for event, when in waits if when != When.REUSED}
        self.always_awaited = frozenset(awaited)
        self.round_of = dict(zip(self.ordered.event_of, (each.last_round for each in self.combines), strict=True))
        self.round_of |= {Event(rank, ENTERED): 0 for rank in ranks}
        self.written_in = {home: each.last_round for each in self.combines for home in each.targets}
        awaited |= {event for waits in self.last_waits for event, _ in waits}
        self.step_of: dict[Event, int] = {}
        steps = Counter[int]()
        for event in sorted(awaited):
            steps[event.rank] += 1
            self.step_of[event] = steps[event.rank]

    def _stage(self, rank: int) -> dict[Home, int]:
        """The entries of a rank's stage: its slots, its shelves, then what others use of its input and output."""
        slots = [Home(rank, Area.SLOT, number) for number in range(len(self.combining.slots[rank]))]
        shelves = [Home(rank, Area.SHELF, number) for number in range(len(self.shelves[rank]))]
        return {home: entry for entry, home in enumerate((*slots, *shelves, *sorted(self.used_by_others[rank])))}

    def block_of(self, home: Home) -> int:
        return self.shelves[home.rank][home.number] if home.area == Area.SHELF else self.combining.block_of(home)

    def _access(self, combine: Combine) -> Access:
        location = self.combining.location
        arrays_read = {home.rank for home in combine.sources if home.area in (Area.IN, Area.OUT)}
        owners = (arrays_read | {home.rank for home in combine.targets}) - {combine.rank}
        # In one place, that is a copy onto itself; apart, the input stays as it is.
        kept = {h._replace(area=Area.OUT) for h in combine.sources if len(combine.sources) == 1 and h.area == Area.IN}
        return Access(
            combine.rank,
            [location(h) for h in combine.sources],
            [location(h) for h in combine.targets],
            owners,
            frozenset(location(h) for h in combine.targets if h in kept),
        )

    def _uses_by_others(self) -> list[dict[When, list[Event]]]:
        """What others do with the memory of each rank."""
        uses: list[dict[When, list[Event]]] = [{when: [] for when in When} for _ in self.stage_entries]
        for combine, event in zip(self.combines, self.ordered.event_of, strict=True):
            for home in combine.sources:
                if home.rank != combine.rank:
                    uses[home.rank][_WHEN_READ[home.area]].append(event)
            for home in combine.targets:
                if home.rank != combine.rank:
                    uses[home.rank][When.REUSED if home.area == Area.SLOT else When.ALWAYS].append(event)
        return uses

    def _last_waits(self, rank: int, uses: dict[When, list[Event]]) -> Iterator[tuple[Event, When]]:
        """Before a rank returns, the others are through with its memory."""
        known = self.ordered.clocks[rank]
        for event in self.ordered.still_needed(rank, uses.pop(When.ALWAYS), known):
            yield event, When.ALWAYS
        for when, events in uses.items():  # none of these may count on another one
            for event in self.ordered.still_needed(rank, events, list(known)):
                yield event, when


def _is_of_all(combine: Combine, ranks: int) -> bool:
    inputs = {home.rank for home in combine.sources if home.area == Area.IN}
    return len(inputs) == len(combine.sources) == ranks


_WHEN_READ = {
    int(Area.IN): When.INPUT_LENT,
    int(Area.OUT): When.OUTPUT_LENT,
    int(Area.SLOT): When.REUSED,
    int(Area.SHELF): When.REUSED,
}


class _Writing:
    """Writes down the program of one rank.

    Each row has a round of the schedule. A combine may do what several rounds ask for: its waits are of the first of
    them, itself and its signal of the last. What comes before all combines is of round 0; what comes after them, of the
    round of the combine that it waits for or fetches from.
    """

    def __init__(self, sharing: _Sharing, rank: int) -> None:
        self.sharing, self.rank = sharing, rank
        self.rows: list[tuple[int, int, int, int, int]] = []
        self.round_of: list[int] = []
        self.references: list[int] = []
        self.places: dict[Home, int] = {}
        self.blocks: dict[int, int] = {}

    def program(self) -> SharedProgram:
        sharing, rank = self.sharing, self.rank
        staged = [home for home in sharing.stage_entries[rank] if home.area in (Area.IN, Area.OUT)]
        for home in staged:
            if home.area == Area.IN:
                self.row(0, Kind.PUBLISH, self.place(home), self.block(home.number))
        self.signal(Event(rank, ENTERED))
        for combine, waits, event in zip(
            sharing.combines, sharing.ordered.waits, sharing.ordered.event_of, strict=True
        ):
            if combine.rank == rank:
                for awaited in waits:
                    self.wait(awaited, When.ALWAYS, combine.first_round)
                if id(combine) in sharing.fetches:
                    self.fetch(combine.targets[0], combine.sources[0], combine.last_round)
                else:
                    self.combine(combine)
                self.signal(event)
        last = sorted(sharing.last_waits[rank], key=lambda wait: wait[1])
        for awaited, when in last:
            if when == When.ALWAYS:
                self.wait(awaited, when, sharing.round_of[awaited])
        for home in staged:
            if home.area == Area.OUT:
                self.fetch(home, home, sharing.written_in.get(home, 0))
        for awaited, when in last:
            if when != When.ALWAYS:
                self.wait(awaited, when, sharing.round_of[awaited])
        return self.written()

    def written(self) -> SharedProgram:
        entries = self.sharing.stage_entries
        block_of = self.sharing.block_of
        places = [
            (
                *home[:2],
                self.block(home.number) if home.area in (Area.IN, Area.OUT) else home.number,
                entries[home.rank].get(home, -1),
            )
            for home in self.places
        ]
        return SharedProgram(
            self.rank,
            np.array(list(self.blocks), np.int64),
            np.array(places, np.int32).reshape(-1, 4),
            np.array(self.rows, np.int32).reshape(-1, 5),
            np.array(self.references, np.int32),
            [np.array([block_of(home) for home in stage], np.int64) for stage in entries],
            [sum(home.area == Area.SLOT for home in stage) for stage in entries],
            max(self.sharing.step_of.values(), default=1),
            np.array(self.round_of, np.int32),
            self.sharing.combining.rounds,
            self.sharing.sums_at_once,
        )

    def row(self, round_: int, kind: Kind, *columns: int) -> None:
        a, b, c, d = (*columns, 0, 0)[:4]
        self.rows.append((kind, a, b, c, d))
        self.round_of.append(round_)

    def wait(self, event: Event, when: When, round_: int) -> None:
        self.row(round_, Kind.WAIT, event.rank, self.sharing.step_of[event], when)

    def signal(self, event: Event) -> None:
        if event in self.sharing.step_of:
            when = When.ALWAYS if event in self.sharing.always_awaited else When.REUSED
            self.row(self.sharing.round_of[event], Kind.SIGNAL, self.sharing.step_of[event], when)

    def combine(self, combine: Combine) -> None:
        first = len(self.references)
        self.references += [self.place(home) for home in (*combine.sources, *combine.targets)]
        counts = len(combine.sources), len(combine.targets)
        self.row(combine.last_round, Kind.COMBINE, self.block(combine.block), first, *counts)

    def fetch(self, home: Home, staged: Home, round_: int) -> None:
        self.row(round_, Kind.FETCH, self.place(home), self.block(home.number), self.place(staged))

    def place(self, home: Home) -> int:
        return self.places.setdefault(home, len(self.places))

    def block(self, block: int) -> int:
        return self.blocks.setdefault(block, len(self.blocks))
