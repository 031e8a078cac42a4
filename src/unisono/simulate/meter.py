"""What goes through links and ports, summed up over all rounds."""

from __future__ import annotations

import numpy as np

from .outcome import Loads
from .rounds import Batch, Floats
from .work import Setting, Work


class Meter:
    """Reads every round once, and knows what the round puts on each link."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        p, links = setting.topology.p, setting.topology.links
        self._links = np.zeros(links)
        self._out, self._into = np.zeros((2, p)), np.zeros((2, p))
        self.messages = 0
        self.rounds = 0

    def read(self, batch: Batch, work: Work) -> tuple[Floats, Floats, Floats]:
        """Bytes on every shared link, and seconds of the ranks' ports out and in, in one such round."""
        p = self.setting.topology.p
        out, into = np.bincount(batch.source, work.out, p), np.bincount(batch.target, work.into, p)
        remote = batch.source != batch.target
        whole = bool(remote.all())
        crossing = batch.nbytes if whole else np.where(remote, batch.nbytes, 0)
        if len(self._links):
            links = self.setting.topology.load(batch.source, batch.target, crossing)
        else:
            links = self._links
        self._links = self._links + links * batch.repeat
        self._out[1] += out * batch.repeat
        self._into[1] += into * batch.repeat
        self._out[0] += np.bincount(batch.source, crossing, p) * batch.repeat
        self._into[0] += np.bincount(batch.target, crossing, p) * batch.repeat
        self.messages += (batch.messages if whole else int(remote.sum())) * batch.repeat
        self.rounds += batch.repeat if batch.messages else 0
        return links, out, into

    @property
    def loads(self) -> Loads:
        return Loads(self._links, self._links * self.setting.link_beta, *self._out, *self._into)
