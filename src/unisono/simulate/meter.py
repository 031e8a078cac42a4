"""What goes through links and ports, summed up over all rounds."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..schedule.ir import Ints
from .outcome import Loads
from .rounds import Batch, Floats
from .work import Setting, Work


class Load(NamedTuple):
    """Of one round: bytes on every shared link, and seconds of every rank's ports, and to reduce."""

    links: Floats
    out: Floats
    into: Floats
    reducing: Floats


class Meter:
    """Reads every round once, as often as it is done."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        p, links = setting.topology.p, setting.topology.links
        self._links = np.zeros(links)
        self._out, self._into = np.zeros((2, p)), np.zeros((2, p))
        self._reducing = np.zeros(p)
        self.messages = 0
        self.rounds = 0

    def read(self, batch: Batch, work: Work) -> Load:
        """What one such round puts on links and ports."""
        remote = batch.source != batch.target
        whole = bool(remote.all())
        moved = batch.nbytes if whole else np.where(remote, batch.nbytes, 0)
        has_links = len(self._links) > 0
        links = self.setting.topology.load(batch.source, batch.target, moved) if has_links else self._links
        out = self._ports(self._out, batch.source, moved, work.out, batch.repeat)
        into = self._ports(self._into, batch.target, moved, work.into, batch.repeat)
        reducing = np.bincount(batch.target, work.reducing, len(self._reducing)).astype(np.float64, copy=False)
        self._reducing += reducing * batch.repeat
        if has_links:
            self._links += links * batch.repeat
        self.messages += (batch.messages if whole else int(remote.sum())) * batch.repeat
        self.rounds += batch.repeat
        return Load(links, out, into, reducing)

    def read_begun(self, batch: Batch, work: Work, begun: Ints) -> None:
        """What these rounds put on links and ports if each rank begins only so many of them."""
        times = np.clip(np.minimum(begun[batch.source], begun[batch.target]), 0, batch.repeat)
        messages, rounds = self.messages, self.rounds
        seconds = (column * times for column in work[1:])
        self.read(batch._replace(nbytes=batch.nbytes * times, repeat=1), Work(work.start, *seconds))
        self.messages = messages + int(times[batch.source != batch.target].sum())
        self.rounds = rounds + min(batch.repeat, max(0, int(begun.max())))

    @property
    def loads(self) -> Loads:
        return Loads(self._links, self._links * self.setting.link_beta, *self._out, *self._into)

    @property
    def seconds_of_ports(self) -> tuple[Floats, Floats]:
        """Of each rank's busier one, to move bytes, and what reducing them adds; it can do no better."""
        moving = np.maximum(self._out[1], self._into[1])
        return moving, np.maximum(self._out[1], self._into[1] + self._reducing) - moving

    def _ports(self, total: Floats, rank: Ints, nbytes: Floats, seconds: Floats, repeat: int) -> Floats:
        """Seconds of each rank's port; with the bytes, they are added to the total."""
        p = self.setting.topology.p
        through: Floats = np.bincount(rank, nbytes, p).astype(np.float64, copy=False)
        busy = through * self.setting.machine.link.beta if self.setting.is_plain else np.bincount(rank, seconds, p)
        total[0] += through if repeat == 1 else through * repeat
        total[1] += busy if repeat == 1 else busy * repeat
        return busy.astype(np.float64, copy=False)
