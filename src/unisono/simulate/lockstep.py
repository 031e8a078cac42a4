"""Rounds in lockstep: the next one begins when the last rank is through with this one.

A round costs its busiest rank α + max(bytes out·β, bytes in·β, F) + bytes reduced·γ, F being the seconds that the most
loaded shared link needs for all that crosses it: α + M·n·β + n·γ if M messages of n bytes share a link. Where no link
is as busy as a port, that is `price`.
"""

from __future__ import annotations

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
        self._terms = np.zeros(4)

    def run(self, batch: Batch) -> None:
        """Add a round, as often as it is done."""
        work = self.setting.work(batch)
        load = self.meter.read(batch, work)
        if not batch.messages:
            return
        fullest = float((load.links * self.setting.link_beta).max(initial=0.0))
        start, talks = self._start(batch, work)
        ports = np.maximum(load.out, load.into)
        cost = start + np.where(talks, np.maximum(ports, fullest), 0) + load.reducing
        busiest = int(cost.argmax())
        waiting = max(0.0, fullest - ports[busiest]) if talks[busiest] else 0.0
        self._terms += batch.repeat * np.array([start[busiest], ports[busiest], load.reducing[busiest], waiting])
        self.time += batch.repeat * float(cost[busiest])

    @property
    def terms(self) -> Terms:
        """Of the busiest rank of each round; waiting is for the fullest link."""
        alpha, beta, gamma, waiting = map(float, self._terms)
        return Terms(alpha, beta, gamma, waiting)

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
