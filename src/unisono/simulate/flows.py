"""Asynchronous rounds: every rank goes on when its own messages are through, and messages under way share links.

A message sets off when both of its ranks have begun its round, takes α, and then moves at a rate that it is given by
what it goes through: the sender's port, the links on its way, and the receiver's port, which a byte that is reduced
occupies for β + γ. Rates are max-min fair. Messages of older rounds go first, and those of one round share in
proportion to their sizes; that makes this never slower than lockstep (docs/decisions/0013). ``fair`` lets all messages
share alike, as TCP or SimGrid do, without that guarantee.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import ConfigError
from ..schedule.ir import NOBODY
from .meter import Load, Meter
from .outcome import Flights
from .rounds import Batch, Failure, Floats, split_at
from .uniform import common_time
from .work import Setting, Work

if TYPE_CHECKING:
    from .._native import FlowSimulation

MOST_FLIGHTS = 100_000
MOST_RANKS_SHOWN = 64


class Flows:
    """The ranks of a setting, on their way through a sequence of rounds."""

    def __init__(self, setting: Setting, *, parts: int = 1, fair: bool = False, record: bool = False) -> None:
        self.setting = setting
        self.meter = Meter(setting)
        self.fair = fair
        self.record = record
        p = setting.topology.p
        self.parts = parts
        shown = np.tile((np.arange(p) < MOST_RANKS_SHOWN).astype(np.uint8), parts)
        self.native = _native_simulation(p, parts, setting.link_beta, fair, shown, MOST_FLIGHTS if record else 0)
        self._together = True  # all ranks are at the same moment, with nothing under way
        self._added = False

    def run(self, rounds: Iterable[Batch], failure: Failure | None = None) -> None:
        """Go through all rounds; in one of them a rank may fail."""
        for batch, failing in split_at(rounds, failure):
            if failing is not None and not self._added:
                self.native.fail(failing.rank)
                self._together = False
            self._round(batch, NOBODY if failing is None else failing.rank)
        if self._added:
            self.native.run()

    def _round(self, batch: Batch, failing: int) -> None:
        work = self.setting.work(batch)
        load = self.meter.read(batch, work)
        if self._added or not self._advance(batch, work, load):
            self._add(batch, work, failing)

    def _advance(self, batch: Batch, work: Work, load: Load) -> bool:
        """Try what needs no events."""
        if not batch.messages:
            self.native.advance_all(0.0, 0.0, 0.0, 0.0, batch.repeat)
            return True
        has_links = self.setting.topology.links > 0
        if self.parts == 1 and not has_links and self.native.advance_ports(*_columns(batch, work), repeat=batch.repeat):
            self._together = self._together and self._is_together()
            return True
        if self._together and self.parts == 1 and not self.record and not (self.fair and np.ptp(batch.nbytes) > 0):
            step = common_time(self.setting, batch, work, load)
            if step is not None:
                self.native.advance_all(*step, batch.repeat)
                return True
        return False

    def _add(self, batch: Batch, work: Work, failing: int) -> None:
        """Let ranks come to this round, and to all that follow on shared links, whenever they are ready."""
        topology = self.setting.topology
        offset, link = topology.routes(batch.source, batch.target)
        if self.parts > 1:
            batch, work = _in_parts(batch, work, topology.p, self.parts)
            offset = np.concatenate([offset[:1], *(offset[1:] + k * len(link) for k in range(self.parts))])
            link = np.tile(link, self.parts)
        begin, links = np.ascontiguousarray(offset, np.int32), np.ascontiguousarray(link, np.int32)
        self.native.add(*_columns(batch, work), route_begin=begin, links=links, repeat=batch.repeat, dies=failing)
        self._together = False
        if topology.links or self.parts > 1:
            self._added = True
        else:
            self.native.run()
            self._together = self._is_together()

    def _is_together(self) -> bool:
        begin = self.native.begin()
        return bool((begin == begin[0]).all())

    @property
    def flights(self) -> Flights | None:
        """Of a vector in parts, each part of a message."""
        if not self.record:
            return None
        flights, p = Flights(*self.native.flights()), self.setting.topology.p
        return flights._replace(source=flights.source % p, target=flights.target % p)

    @property
    def ended(self) -> Floats:
        """When each rank is through with all of its parts; inf for who is stuck."""
        return np.asarray(self.native.begin().reshape(self.parts, -1).max(axis=0))

    def spent(self) -> Floats:
        """Seconds of each rank to start, to move bytes and to reduce.

        Of a vector in parts, one starts while others move: what counts then is the busier port, which no part has for
        itself, and as much of the start-up as the port does not hide.
        """
        terms = np.array(self.native.terms())
        if self.parts == 1:
            return terms
        moving, reducing = self.meter.seconds_of_ports
        start = terms[0].reshape(self.parts, -1).max(axis=0)
        return np.array([np.clip(self.ended - moving - reducing, 0, start), moving, reducing])


def _in_parts(batch: Batch, work: Work, p: int, parts: int) -> tuple[Batch, Work]:
    """The messages of each part of the vector, of ranks of its own; they start as if they were whole."""
    shift = np.repeat(np.arange(parts) * p, batch.messages)
    source, target = np.tile(batch.source, parts) + shift, np.tile(batch.target, parts) + shift
    nbytes, reduces = np.tile(batch.nbytes / parts, parts), np.tile(batch.reduces, parts)
    seconds = (np.tile(column / parts, parts) for column in (work.out, work.into, work.reducing))
    return Batch(source, target, nbytes, reduces, batch.repeat), Work(np.tile(work.start, parts), *seconds)


def _columns(batch: Batch, work: Work) -> tuple[Any, Any, Any, Any, Any, Any, Any]:
    """As the native core takes them."""
    plain = work.out if work.out is work.into else np.maximum(work.out, work.into)
    return (
        np.ascontiguousarray(batch.source, np.int32),
        np.ascontiguousarray(batch.target, np.int32),
        np.ascontiguousarray(batch.nbytes),
        np.ascontiguousarray(work.start),
        np.ascontiguousarray(work.out),
        np.ascontiguousarray(work.into + work.reducing),
        np.ascontiguousarray(plain),
    )


def _native_simulation(
    p: int, parts: int, link_beta: Floats, fair: bool, shown: np.ndarray, room: int
) -> FlowSimulation:
    try:
        from .._native import FlowSimulation
    except ModuleNotFoundError:
        raise ConfigError("simulating flows needs the native core, which is not here; lockstep does not") from None
    return FlowSimulation(p, parts, link_beta, fair, shown, room)
