"""Simulate a schedule: on which machine, joined how, in which mode, with whom slow or failing."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..errors import ConfigError
from ..interpret.machine import DEFAULT, Machine
from ..schedule.schedule import Schedule
from .flows import Flows, _split_at
from .lockstep import Lockstep
from .outcome import Outcome, Stall, Terms
from .rounds import batches, cells_of_a_round
from .topologies import Topology, topology
from .work import Setting

MODES = ("flows", "lockstep")
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
    fair: bool = False,
    record: bool = False,
) -> Outcome:
    """How long a schedule takes for ``nbytes`` bytes, and why.

    ``on`` is what joins the ranks: a topology, or its name. ``stragglers`` are ranks that take so many times as long for
    everything. ``fail`` is a rank and the round, from 0 on, that it never begins. ``hop`` is seconds for each shared link
    on the way of a message. ``record`` keeps messages for pictures. ``fair``: see `flows`.
    """
    joined = topology(on, schedule.p) if isinstance(on, str) else on
    if joined.p != schedule.p:
        raise ConfigError(f"{joined.name} has {joined.p} ranks, the schedule {schedule.p}")
    setting = Setting(machine, joined, hop, dict(stragglers or {}))
    if mode not in MODES:
        raise ConfigError(f"no mode is called {mode!r}; there are: {', '.join(MODES)}")
    if fail is not None and not 0 <= fail[0] < schedule.p:
        nearest = min(max(fail[0], 0), schedule.p - 1)
        raise ConfigError(f"rank {fail[0]} cannot fail: ranks are numbered 0 to {schedule.p - 1}; the nearest is {nearest}")
    if fail is not None and fail[1] < 0:
        raise ConfigError(f"rounds count from 0, and none is {fail[1]}; the nearest is 0")
    if (cells := cells_of_a_round(schedule)) > MOST_CELLS:
        raise ConfigError(
            f"{schedule.name} among {schedule.p:,} ranks has up to {cells // 2:,} messages in a round, more than fit; "
            "an algorithm with fewer peers, such as ring, or fewer ranks would do"
        )
    run = _in_lockstep if mode == "lockstep" else _as_flows
    return run(schedule, nbytes, setting, fail, fair=fair, record=record)


def bound_time(schedule: Schedule, nbytes: int, machine: Machine) -> float:
    """The time of an algorithm that would meet all lower bounds at once, over the machine's better link."""
    bound = schedule.collective.bound(schedule.p, nbytes)
    link = machine.link
    return bound.rounds * link.alpha + bound.bytes * link.beta + bound.reduced * machine.gamma


def _in_lockstep(
    schedule: Schedule, nbytes: int, setting: Setting, fail: tuple[int, int] | None, *, fair: bool, record: bool
) -> Outcome:
    simulation = Lockstep(setting)
    stall = None
    for batch, failing in _split_at(batches(schedule, schedule.layout(nbytes)), fail):
        if failing is not None:
            everyone = np.full(schedule.p, fail[1])  # type: ignore[index]
            stall = Stall(
                failing, int(everyone[0]), everyone, np.where(np.arange(schedule.p) == failing, -1, failing),
                np.full(schedule.p, simulation.time),
            )  # fmt: skip
            break
        simulation.run([batch])
    _check_reached(fail, stall, simulation.meter.rounds)
    return _outcome(
        schedule, nbytes, setting, "lockstep", simulation, simulation.time, simulation.outcome_terms,
        np.full(schedule.p, simulation.time), stall, 0.0,
    )  # fmt: skip


def _as_flows(
    schedule: Schedule, nbytes: int, setting: Setting, fail: tuple[int, int] | None, *, fair: bool, record: bool
) -> Outcome:
    simulation = Flows(setting, fair=fair, record=record)
    simulation.run(batches(schedule, schedule.layout(nbytes)), fail)
    ended = simulation.native.begin()
    last_round, waits_for, since = simulation.native.stalled()
    stall = None
    if (last_round >= 0).any():
        stall = Stall(*fail, last_round, waits_for, since)  # type: ignore[misc]
        ended = np.where(last_round >= 0, since, ended)
    _check_reached(fail, stall, simulation.meter.rounds)
    spent = np.array(simulation.native.terms())
    waiting = ended - spent.sum(axis=0)
    last = int(ended.argmax())
    terms = Terms(*map(float, spent[:, last]), max(0.0, float(waiting[last])))
    time = float(ended[last])
    mean = float((time - spent.sum(axis=0)).mean())
    outcome = _outcome(schedule, nbytes, setting, "flows", simulation, time, terms, ended, stall, mean)
    return outcome


def _check_reached(fail: tuple[int, int] | None, stall: Stall | None, rounds: int) -> None:
    if fail is not None and stall is None:
        raise ConfigError(
            f"rank {fail[0]} cannot fail in round {fail[1] + 1}: there are {rounds}; the nearest is {rounds}"
        )


def _outcome(
    schedule: Schedule,
    nbytes: int,
    setting: Setting,
    mode: str,
    simulation: Flows | Lockstep,
    time: float,
    terms: Terms,
    ended: np.ndarray,
    stall: Stall | None,
    mean_waiting: float,
) -> Outcome:
    return Outcome(
        mode=mode,
        collective=schedule.collective.name,
        algorithm=schedule.name,
        p=schedule.p,
        nbytes=nbytes,
        machine=setting.machine,
        topology=setting.topology,
        rounds=simulation.meter.rounds,
        messages=simulation.meter.messages,
        time=time,
        bound=bound_time(schedule, nbytes, setting.machine),
        terms=terms,
        loads=simulation.meter.loads,
        ended=ended,
        flights=simulation.flights if isinstance(simulation, Flows) else None,
        stall=stall,
        mean_waiting=mean_waiting,
    )
