"""Asynchronous rounds: every rank goes on when its own messages are through, and messages under way share links.

A message sets off when both of its ranks have begun its round, takes α, and then moves at a rate that it is given by
what it goes through: the sender's port, the links on its way, and the receiver's port, which a byte that is reduced
occupies for β + γ. Rates are max-min fair. Messages of older rounds go first, and those of one round share in proportion
to their sizes; that makes this never slower than lockstep (docs/decisions/0013). ``fair`` lets all messages share alike,
as TCP or SimGrid do, without that guarantee.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from ..errors import ConfigError
from .meter import Load, Meter
from .outcome import Flights
from .rounds import Batch, Floats
from .uniform import common_time
from .work import Setting, Work

if TYPE_CHECKING:
    from .._native import FlowSimulation

MOST_FLIGHTS = 100_000
MOST_RANKS_SHOWN = 64


class Flows:
    """The ranks of a setting, on their way through a sequence of rounds."""

    def __init__(self, setting: Setting, *, fair: bool = False, record: bool = False) -> None:
        self.setting = setting
        self.meter = Meter(setting)
        self.fair = fair
        self.record = record
        p = setting.topology.p
        shown = np.zeros(p, np.uint8)
        shown[:MOST_RANKS_SHOWN] = 1
        self.native = _native_simulation(p, setting.link_beta, fair, shown, MOST_FLIGHTS if record else 0)
        self._together = True  # all ranks are at the same moment, with nothing under way
        self._added = False

    def run(self, rounds: Iterable[Batch], fail: tuple[int, int] | None = None) -> None:
        """Go through all rounds; in one of them a rank may fail."""
        for batch, failing in _split_at(rounds, fail):
            if failing is not None and not self._added:
                self.native.fail(failing)
                self._together = False
            self._round(batch, -1 if failing is None else failing)
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
        if not has_links and self.native.advance_ports(*_columns(batch, work), batch.repeat):
            self._together = self._together and self._is_together()
            return True
        if self._together and not self.record and not (self.fair and np.ptp(batch.nbytes) > 0):
            step = common_time(self.setting, batch, work, load)
            if step is not None:
                self.native.advance_all(*step, batch.repeat)
                return True
        return False

    def _add(self, batch: Batch, work: Work, failing: int) -> None:
        """Let ranks come to this round, and to all that follow on shared links, whenever they are ready."""
        topology = self.setting.topology
        offset, link = topology.routes(batch.source, batch.target) if topology.links else (np.zeros(0), np.zeros(0))
        routes = (np.ascontiguousarray(column, np.int32) for column in (offset, link))
        self.native.add(*_columns(batch, work), *routes, batch.repeat, failing)
        self._together = False
        if topology.links:
            self._added = True
        else:
            self.native.run()
            self._together = self._is_together()

    def _is_together(self) -> bool:
        begin = self.native.begin()
        return bool((begin == begin[0]).all())

    @property
    def flights(self) -> Flights | None:
        return Flights(*self.native.flights()) if self.record else None


def _columns(batch: Batch, work: Work) -> Iterator[np.ndarray]:
    yield np.ascontiguousarray(batch.source, np.int32)
    yield np.ascontiguousarray(batch.target, np.int32)
    plain = work.out if work.out is work.into else np.maximum(work.out, work.into)
    for column in (batch.nbytes, work.start, work.out, work.into + work.reducing, plain):
        yield np.ascontiguousarray(column, np.float64)


def _split_at(rounds: Iterable[Batch], fail: tuple[int, int] | None) -> Iterator[tuple[Batch, int | None]]:
    """The rounds, cut where a rank fails, and who does so when one begins."""
    at = 0
    for batch in rounds:
        if fail is None or not at <= fail[1] < at + batch.repeat:
            yield batch, None
        else:
            before = fail[1] - at
            if before:
                yield batch._replace(repeat=before), None
            yield batch._replace(repeat=batch.repeat - before), fail[0]
        at += batch.repeat


def _native_simulation(p: int, link_beta: Floats, fair: bool, shown: np.ndarray, room: int) -> FlowSimulation:
    try:
        from .._native import FlowSimulation
    except ModuleNotFoundError:
        raise ConfigError("simulating flows needs the native core, which is not here; lockstep does not") from None
    return FlowSimulation(p, link_beta, fair, shown, room)
