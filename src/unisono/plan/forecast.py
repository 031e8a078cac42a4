"""A plan: for every number of hosts and every way to add up, how long a step takes and what it yields."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import isfinite

import numpy as np

from ..errors import ConfigError
from .job import Job
from .strategies import Exchange, Strategy, strategies


@dataclass(frozen=True)
class Step:
    """One step of training on so many hosts. A batch is what one host computes in a step."""

    strategy: str
    hosts: int
    overlapped: bool
    exchange: Exchange
    compute: float
    time: float

    @property
    def rate(self) -> float:
        """Batches per second."""
        return self.exchange.workers / self.time

    @property
    def efficiency(self) -> float:
        """The rate, as a part of that of hosts that never talk."""
        return self.rate * self.compute / self.hosts

    @property
    def exposed(self) -> float:
        """Seconds that are not computation."""
        return self.time - self.compute

    def cost(self, per_hour: float) -> float:
        """Of a thousand batches, if a host costs so much per hour."""
        return 1000 * self.hosts * per_hour / 3600 / self.rate


@dataclass(frozen=True)
class Plan:
    """All steps of a job. ``lone`` is the best one on one host, whether or not it was asked for."""

    job: Job
    hosts: tuple[int, ...]
    steps: tuple[Step, ...]
    lone: Step

    def of(self, strategy: str, *, overlapped: bool) -> list[Step]:
        """One way to add up, over the numbers of hosts."""
        return [step for step in self.steps if (step.strategy, step.overlapped) == (strategy, overlapped)]

    def best(self, hosts: int, *, overlapped: bool = True) -> Step:
        """The way with most batches per second."""
        return _best(step for step in self.steps if (step.hosts, step.overlapped) == (hosts, overlapped))

    @property
    def strategies(self) -> list[str]:
        return list(dict.fromkeys(step.strategy for step in self.steps))


def plan(job: Job, hosts: Iterable[int]) -> Plan:
    """Forecast a job on these numbers of hosts."""
    counts = tuple(sorted({_whole(count) for count in hosts}))
    if not counts or counts[0] < 1:
        raise ConfigError(f"there is at least 1 host, not {counts[0] if counts else 'none'}; the nearest is 1")
    steps = tuple(
        step for count in counts for overlapped in (False, True) for step in _steps(job, count, overlapped=overlapped)
    )
    return Plan(job, counts, steps, best_step(job, 1))


def _whole(count: object) -> int:
    if isinstance(count, bool) or not isinstance(count, int | np.integer):
        nearest = f"; the nearest is {max(1, round(count))}" if isinstance(count, float) and isfinite(count) else ""
        raise ConfigError(f"numbers of hosts are whole, not {count!r}{nearest}")
    return int(count)


def best_step(job: Job, hosts: int) -> Step:
    """The overlapped way with most batches per second."""
    return _best(_steps(job, hosts, overlapped=True))


def _steps(job: Job, hosts: int, *, overlapped: bool) -> Iterator[Step]:
    found = (forecast(job, strategy, hosts, overlapped=overlapped) for strategy in strategies())
    return (step for step in found if step is not None)


def _best(steps: Iterable[Step]) -> Step:
    return max(steps, key=lambda step: step.rate)


def forecast(job: Job, strategy: Strategy, hosts: int, *, overlapped: bool) -> Step | None:
    """A step with the best number of servers, if the strategy has any on so many hosts."""
    nbytes = -(-job.nbytes // job.buckets) if overlapped else job.nbytes
    offered = [
        Step(
            strategy.name,
            hosts,
            overlapped,
            exchange,
            job.compute,
            step_time(job, exchange.time, overlapped=overlapped),
        )
        for exchange in strategy.exchanges(job, hosts, nbytes)
    ]
    return max(offered, key=lambda step: step.rate, default=None)


def step_time(job: Job, exchange: float, *, overlapped: bool) -> float:
    """Compute and exchange one after the other; or buckets, each exchanged while the next one is computed.

    ``exchange`` is the time of all gradients, or of one bucket. Buckets go through two stages, each of which does one
    at a time: the first is computed, then the slower stage sets the pace, then the last is exchanged.
    """
    if not overlapped:
        return job.compute + exchange
    one = job.backward * job.compute / job.buckets
    return (1 - job.backward) * job.compute + one + (job.buckets - 1) * max(one, exchange) + exchange
