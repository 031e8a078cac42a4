"""What holds a job up, what would help most, and where more machines stop paying."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

from ..interpret.machine import Link
from .forecast import Plan, Step, best_step
from .job import Job

PAYS = 0.5
"""A host pays if it adds at least this part of what a lone host yields."""


class Change(NamedTuple):
    """Something that could be better, and how many times as many batches per second that would give."""

    what: str
    gain: float


@dataclass(frozen=True)
class Advice:
    """For the best way on the largest number of hosts.

    ``stops_paying`` is the number of hosts from which on no host pays; None if the last ones here do. Where these do,
    ``pays_from`` is the number from which on all do, if that is not the first.
    """

    step: Step
    bottleneck: str
    share: float
    changes: tuple[Change, ...]
    stops_paying: int | None
    pays_from: int | None
    breaks_even: int | None
    most: Step


CHANGES: tuple[tuple[str, Callable[[Job], Job]], ...] = (
    ("links twice as fast", lambda job: replace(job, link=Link(job.link.alpha, job.link.beta / 2))),
    ("half as many bytes (16-bit gradients)", lambda job: replace(job, nbytes=max(1, job.nbytes // 2))),
    ("messages that start twice as fast", lambda job: replace(job, link=Link(job.link.alpha / 2, job.link.beta))),
    ("adding up twice as fast", lambda job: replace(job, gamma=job.gamma / 2)),
    ("computing twice as fast", lambda job: replace(job, compute=job.compute / 2)),
    ("a step of twice the computation (larger batches)", lambda job: replace(job, compute=job.compute * 2)),
)


def advise(found: Plan) -> Advice:
    """Look at the best step on the most hosts, and at the way there."""
    largest = found.hosts[-1]
    step = found.best(largest)
    name, share = _bottleneck(step, found.job)
    return Advice(
        step,
        name,
        share,
        tuple(sorted(_changes(found.job, step), key=lambda change: -change.gain)),
        *_where_it_pays(found),
        _breaks_even(found),
        max(_way(found), key=lambda best: best.rate),
    )


def _bottleneck(step: Step, job: Job) -> tuple[str, float]:
    """The largest part of a step; communication counts as far as computation does not hide it."""
    exchange = step.exchange
    parts = {"starting messages (α)": exchange.alpha, "the links (β)": exchange.beta, "adding up (γ)": exchange.gamma,
             "ranks that share a host's link": exchange.waiting}  # fmt: skip
    scale = step.exposed / exchange.time if exchange.time else 0.0
    shares = {"computation": step.compute / step.time} | {
        name: part * scale / step.time for name, part in parts.items()
    }
    name = max(shares, key=lambda each: shares[each])
    return name, shares[name]


def _changes(job: Job, step: Step) -> list[Change]:
    """Larger batches count double, since a step then does the work of two."""
    result = []
    for what, change in CHANGES:
        other = best_step(change(job), step.hosts)
        times = 2.0 if "larger batches" in what else 1.0
        result.append(Change(what, times * other.rate / step.rate))
    return result


def _way(found: Plan) -> list[Step]:
    """The best step of every number of hosts, from one on."""
    return [found.lone, *(found.best(hosts) for hosts in found.hosts if hosts > 1)]


def _where_it_pays(found: Plan) -> tuple[int | None, int | None]:
    """The number of hosts from which on none pays, and else the one from which on all do, if not from the first."""
    steps = [(before.hosts, after.hosts, _pays(before, after, found.lone)) for before, after in pairwise(_way(found))]
    if not steps:
        return None, None
    if not steps[-1][2]:
        return max((after for _, after, pays in steps if pays), default=1), None
    return None, max((after for _, after, pays in steps if not pays), default=None)


def _pays(before: Step, after: Step, lone: Step) -> bool:
    return (after.rate - before.rate) / (after.hosts - before.hosts) >= PAYS * lone.rate


def _breaks_even(found: Plan) -> int | None:
    """The first number of hosts above 1 that is faster than one host, if the first ones are not."""
    lone, *several = _way(found)
    if not several or several[0].rate > lone.rate:
        return None
    return next((step.hosts for step in several if step.rate > lone.rate), -1)
