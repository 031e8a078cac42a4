"""Rounds in lockstep: the next one begins when the last rank is through with this one.

A round costs its busiest rank α + max(bytes out·β, bytes in·β, F) + bytes reduced·γ, F being the seconds that the most
loaded shared link needs for all that crosses it: α + M·n·β + n·γ if M messages of n bytes share a link. Where no link
is as busy as a port, that is `price`.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from .meter import Meter
from .outcome import Terms
from .rounds import Batch, Floats
from .work import Setting, Work


class Lockstep:
    """The time of a sequence of rounds."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.meter = Meter(setting)
        self.time = 0.0
        self.terms = np.zeros(4)

    def run(self, rounds: Iterable[Batch]) -> None:
        for batch in rounds:
            if batch.messages:
                self._round(batch)

    def _round(self, batch: Batch) -> None:
        work = self.setting.work(batch)
        links, out, into = self.meter.read(batch, work)
        fullest = float((links * self.setting.link_beta).max()) if len(links) else 0.0
        start, talks = self._start(batch, work)
        ports = np.maximum(out, into)
        reducing = np.bincount(batch.target, work.reducing, len(out))
        cost = start + np.where(talks, np.maximum(ports, fullest), 0) + reducing
        busiest = int(cost.argmax())
        waiting = max(0.0, fullest - ports[busiest]) if talks[busiest] else 0.0
        self.terms += batch.repeat * np.array([start[busiest], ports[busiest], reducing[busiest], waiting])
        self.time += batch.repeat * float(cost[busiest])

    def _start(self, batch: Batch, work: Work) -> tuple[Floats, Floats]:
        """Seconds to start for every rank, and who talks."""
        start = np.zeros(self.setting.topology.p)
        talks = np.zeros(len(start), bool)
        remote = batch.source != batch.target
        for end in (batch.source, batch.target):
            talks[end[remote]] = True
            if work.start.size and (work.start[0] == work.start).all():
                start[end] = work.start[0]
            else:
                np.maximum.at(start, end, work.start)
        return start, talks

    @property
    def outcome_terms(self) -> Terms:
        return Terms(*map(float, self.terms))
