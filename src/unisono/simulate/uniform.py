"""Rounds that take everybody equally long: then there is nothing to simulate, whatever the links.

If all ranks begin together and every message goes through a link, or a port, that is as loaded as any, all have the
same share of it and end together.
"""

from __future__ import annotations

import numpy as np

from .meter import Load
from .rounds import Batch, Floats
from .work import Setting, Work

ROUNDING = 1e-12


def common_time(setting: Setting, batch: Batch, work: Work, load: Load) -> tuple[float, float, float, float] | None:
    """Seconds of the round, and of these to start, to move bytes alone, and to reduce; None if ranks differ."""
    p = setting.topology.p
    if not batch.messages or (work.start != work.start[0]).any():
        return None
    busy = np.zeros(p, bool)
    busy[batch.source] = busy[batch.target] = True
    if not busy.all():
        return None
    into = load.into + load.reducing
    links = load.links * setting.link_beta
    longest = max(load.out.max(), into.max(), links.max(initial=0.0))
    if not _all_meet(setting, batch, load.out, into, links, longest * (1 - ROUNDING)):
        return None
    start, plain = float(work.start[0]), float(max(work.out[0], work.into[0]))
    alone = float(max(work.out[0], work.into[0] + work.reducing[0]))
    return start + float(longest), start, plain, alone - plain


def _all_meet(setting: Setting, batch: Batch, out: Floats, into: Floats, links: Floats, longest: float) -> bool:
    """Does every message go through something that is so loaded?"""
    rest = np.flatnonzero(np.maximum(out[batch.source], into[batch.target]) < longest)
    if len(rest) and not len(links):
        return False
    return bool(setting.topology.crosses(batch.source[rest], batch.target[rest], links >= longest).all())
