"""Which algorithm for this topology? Every one that fits, in lockstep, the best first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..interpret.explain import best_price
from ..interpret.machine import Machine
from ..schedule.algorithm import Algorithm
from ..schedule.catalog import algorithms
from ..schedule.schedule import Schedule
from .grid import Grid
from .outcome import Outcome
from .rounds import cells_of_a_round
from .simulation import simulate
from .topology import Topology
from .tree import Tree

MOST_CELLS = 1 << 23
"""Algorithms with more messages in a round are left out; who wants them can ask for one by name."""


def schedule_for(
    algorithm: Algorithm, nbytes: int, machine: Machine, on: Topology, root: int = 0, **parameters: Any
) -> Schedule:
    """Parameters that nobody gave follow the topology: the hosts of a hierarchy, the extents of a torus."""
    given = fitting(algorithm, on) | parameters
    if "segments" not in algorithm.parameters or given:
        return algorithm.schedule(on.p, root, **given)
    alike = Machine(machine.link, machine.gamma)  # ranks that are alike are priced once; others one by one
    return best_price(algorithm, on.p, nbytes, alike, root, even=True).schedule


def fitting(algorithm: Algorithm, on: Topology) -> dict[str, Any]:
    """What the topology says about an algorithm's parameters."""
    if "hosts" in algorithm.parameters and isinstance(on, Tree) and on.levels == ("host",):
        return {"hosts": (on.dims[0],) * on.dims[1]}
    if "dims" in algorithm.parameters and isinstance(on, Grid):
        default = algorithm.parameters["dims"].default(on.p)
        if len(default) == len(on.dims):
            return {"dims": on.dims}
    return {}


def candidates(
    collective: str,
    nbytes: int,
    machine: Machine,
    on: Topology,
    root: int = 0,
    *,
    hop: float = 0.0,
    stragglers: Mapping[int, float] | None = None,
) -> tuple[list[tuple[Schedule, Outcome]], list[str]]:
    """Schedules with what they take in lockstep, the best first; and the names of those that were left out.

    Algorithms in which not every rank contributes do less than was asked for, and come last.
    """
    found, left_out = [], []
    for algorithm in algorithms(collective):
        schedule = schedule_for(algorithm, nbytes, machine, on, root)
        if cells_of_a_round(schedule) > MOST_CELLS:
            left_out.append(algorithm.name)
            continue
        outcome = simulate(schedule, nbytes, machine, on, mode="lockstep", hop=hop, stragglers=stragglers)
        found.append((schedule, outcome))
    return sorted(found, key=lambda pair: (pair[0].workers < on.p, pair[1].time)), left_out
