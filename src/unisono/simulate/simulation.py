"""Simulate a schedule: on which machine, joined how, in which mode, with whom slow or failing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import NamedTuple

import numpy as np

from ..errors import ConfigError
from ..interpret.machine import DEFAULT, Machine
from ..schedule.conditions import Collective
from ..schedule.schedule import Schedule
from .flows import Flows
from .lockstep import Lockstep
from .meter import Meter
from .outcome import Flights, Outcome, Stall, Terms
from .rounds import Batch, Failure, Floats, batches, cells_of_a_round, split_at
from .topologies import Topology, topology
from .work import Setting

MODES = ("flows", "lockstep")
MOST_PARTS = 32
"""Of a vector that is passed on in segments; more of them overlap hardly more."""

MOST_CELLS = 1 << 26
"""Messages of a round, sent and received, that are looked at together: some gigabytes."""


def simulate(
    schedule: Schedule,
    nbytes: int,
    machine: Machine = DEFAULT,
    on: Topology | str = "switch",
    *,
    mode: str = "flows",
    stragglers: Mapping[int, float] | None = None,
    fail: tuple[int, int] | None = None,
    hop: float = 0.0,
    segment: int | None = None,
    fair: bool = False,
    record: bool = False,
) -> Outcome:
    """How long a schedule takes for ``nbytes`` bytes, and why.

    ``on`` is what joins the ranks: a topology, or its name. ``stragglers`` are ranks that take so many times as long
    for everything. ``fail`` is a rank and the round, from 0 on, that it never begins. ``hop`` is seconds for each
    shared link on the way of a message. ``segment``: a rank passes a message on while it still arrives, in so many
    bytes at a time, as our executor does over links; otherwise when all of it is there. ``record`` keeps messages for
    pictures. ``fair``: see `flows`.
    """
    require_bytes(nbytes)
    setting = Setting(machine, topology(on, schedule.p) if isinstance(on, str) else on, hop, dict(stragglers or {}))
    failure = None if fail is None else Failure(*fail)
    _check(schedule, setting, mode, failure, segment, fair=fair)
    if mode == "lockstep":
        course = _in_lockstep(schedule, nbytes, setting, failure)
    else:
        course = _as_flows(schedule, nbytes, setting, failure, parts=_parts(nbytes, segment), fair=fair, record=record)
    if failure is not None and course.stall is None:
        rounds = course.meter.rounds
        raise ConfigError(
            f"rank {failure.rank} cannot fail in round {failure.round + 1}: there are {rounds}; the nearest is {rounds}"
        )
    return Outcome(
        mode=mode,
        collective=schedule.collective.name,
        algorithm=schedule.name,
        p=schedule.p,
        nbytes=nbytes,
        machine=machine,
        topology=setting.topology,
        rounds=course.meter.rounds,
        messages=course.meter.messages,
        time=course.time,
        bound=bound_time(schedule.collective, schedule.p, nbytes, machine),
        terms=course.terms,
        loads=course.meter.loads,
        ended=course.ended,
        flights=course.flights,
        stall=course.stall,
        mean_waiting=course.mean_waiting,
    )


def bound_time(collective: Collective, p: int, nbytes: int, machine: Machine) -> float:
    """The time of an algorithm that would meet all lower bounds at once, over the link between hosts."""
    bound, link = collective.bound(p, nbytes), machine.link
    return bound.rounds * link.alpha + bound.bytes * link.beta + bound.reduced * machine.gamma


class _Course(NamedTuple):
    """What a mode found."""

    time: float
    terms: Terms
    ended: Floats
    stall: Stall | None
    mean_waiting: float
    meter: Meter
    flights: Flights | None


def require_mode(mode: str) -> None:
    """Is there such a mode?"""
    if mode not in MODES:
        near = get_close_matches(mode, MODES, n=1, cutoff=0)[0]
        raise ConfigError(f"no mode is called {mode!r}; there are: {', '.join(MODES)}; did you mean {near!r}?")


def require_bytes(nbytes: object) -> None:
    """Can a vector have so many?"""
    if isinstance(nbytes, bool) or not isinstance(nbytes, int | np.integer):
        raise ConfigError(f"the bytes of a vector are a whole number from 0 up, not {nbytes!r}")
    if nbytes < 0:
        raise ConfigError(f"a vector has 0 bytes or more, not {nbytes}; the nearest is 0")


def _check(
    schedule: Schedule, setting: Setting, mode: str, failure: Failure | None, segment: int | None, *, fair: bool
) -> None:
    p = schedule.p
    if setting.topology.p != p:
        raise ConfigError(f"{setting.topology.name} has {setting.topology.p} ranks, the schedule {p}")
    require_mode(mode)
    if failure is not None and not 0 <= failure.rank < p:
        nearest = min(max(failure.rank, 0), p - 1)
        raise ConfigError(f"rank {failure.rank} cannot fail: ranks are 0 to {p - 1}; the nearest is {nearest}")
    if failure is not None and failure.round < 0:
        raise ConfigError(f"rounds count from 0, and none is {failure.round}; the nearest is 0")
    if failure is not None and segment is not None:
        raise ConfigError("a failure is simulated without segments; leave one of them out")
    if mode == "lockstep" and segment is not None:
        raise ConfigError(
            "in lockstep nothing is passed on before its round is over; leave the segment or the mode out"
        )
    if mode == "lockstep" and fair:
        raise ConfigError("in lockstep messages do not share a link at their own pace; leave fair or the mode out")
    if (cells := cells_of_a_round(schedule)) > MOST_CELLS:
        raise ConfigError(
            f"{schedule.name} among {p:,} ranks has up to {cells // 2:,} messages in a round, more than fit; "
            "an algorithm with fewer peers, such as ring, or fewer ranks would do"
        )


def _parts(nbytes: int, segment: int | None) -> int:
    if segment is not None and segment < 1:
        raise ConfigError(f"a segment has at least 1 byte, not {segment}; the nearest is 1")
    return 1 if segment is None else max(1, min(MOST_PARTS, -(-nbytes // segment)))


def _in_lockstep(schedule: Schedule, nbytes: int, setting: Setting, failure: Failure | None) -> _Course:
    """Where one rank fails, all wait for it in the same round."""
    simulation = Lockstep(setting)
    stall = None
    for batch, failing in split_at(batches(schedule, schedule.layout(nbytes)), failure):
        if failing is not None:
            ranks = np.arange(schedule.p)
            at = np.full(schedule.p, failing.round)
            waits_for = np.where(ranks == failing.rank, -1, failing.rank)
            stall = Stall(failing.rank, failing.round, at, waits_for, np.full(schedule.p, simulation.time))
            break
        simulation.run(batch)
    ended = np.full(schedule.p, simulation.time)
    return _Course(simulation.time, simulation.terms, ended, stall, 0.0, simulation.meter, None)


def _as_flows(
    schedule: Schedule, nbytes: int, setting: Setting, failure: Failure | None, *, parts: int, fair: bool, record: bool
) -> _Course:
    simulation = Flows(setting, parts=parts, fair=fair, record=record)
    layout = schedule.layout(nbytes)
    simulation.run(batches(schedule, layout), failure)
    ended, spent, meter, stall = simulation.ended, simulation.spent(), simulation.meter, None
    if failure is not None and (simulation.native.stalled()[0] >= 0).any():
        stall = Stall(*failure, *simulation.native.stalled())
        ended = np.where(stall.last_round >= 0, stall.since, ended)
        meter = _meter_begun(setting, batches(schedule, layout), stall)
    last = int(ended.argmax())
    time = float(ended[last])
    alpha, beta, gamma = map(float, spent[:, last])
    terms = Terms(alpha, beta, gamma, max(0.0, time - alpha - beta - gamma))
    mean_waiting = max(0.0, float((time - spent.sum(axis=0)).mean()))
    return _Course(time, terms, ended, stall, mean_waiting, meter, simulation.flights)


def _meter_begun(setting: Setting, rounds: Iterable[Batch], stall: Stall) -> Meter:
    """What went through links and ports before nothing moved any more."""
    meter, begun = Meter(setting), stall.rounds_begun
    for batch in rounds:
        meter.read_begun(batch, setting.work(batch), begun)
        begun = begun - batch.repeat
    return meter
