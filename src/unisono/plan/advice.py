"""What holds a job up, what would help most, and where more machines stop paying."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

from ..interpret.machine import Link
from .forecast import Plan, Step, plan
from .job import Job

PAYS = 0.5
"""A host pays if it adds at least this part of what a lone host yields."""


class Change(NamedTuple):
    """Something that could be better, and how many times as many batches per second that would give."""

    what: str
    gain: float


@dataclass(frozen=True)
class Advice:
    """For the best way on the largest number of hosts."""

    step: Step
    bottleneck: str
    share: float
    changes: tuple[Change, ...]
    stops_paying: int | None
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
        _stops_paying(found),
        _breaks_even(found),
        max((found.best(hosts) for hosts in found.hosts), key=lambda best: best.rate),
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
        other = plan(change(job), [step.hosts]).best(step.hosts)
        times = 2.0 if "larger batches" in what else 1.0
        result.append(Change(what, times * other.rate / step.rate))
    return result


def _stops_paying(found: Plan) -> int | None:
    """The number of hosts from which on each added host yields too little; None if that does not happen here."""
    lone = 1 / found.job.compute
    best = [found.best(hosts) for hosts in found.hosts]
    for before, after in pairwise(best):
        if (after.rate - before.rate) / (after.hosts - before.hosts) < PAYS * lone:
            return before.hosts
    return None


def _breaks_even(found: Plan) -> int | None:
    """The first number of hosts above 1 that is faster than one host, if the first ones are not."""
    lone = 1 / found.job.compute
    several = [hosts for hosts in found.hosts if hosts > 1]
    if not several or found.best(several[0]).rate > lone:
        return None
    return next((hosts for hosts in several if found.best(hosts).rate > lone), -1)
