"""Switches that add up: the vector goes up a tree of switches, is added on the way, and comes down to everybody.

As in SHARP (Graham et al., COMHPC 2016): every link carries the vector once in each direction, and no rank reduces.
Switches add as fast as their links are. In lockstep, the way up is one round and the way down another. As flows,
packets that have been added up go down while others still go up, so that both ways share the time of one.
"""

from __future__ import annotations

import numpy as np

from ..errors import ConfigError
from ..schedule.conditions import COLLECTIVES
from .outcome import Loads, Outcome, Terms
from .simulation import bound_time, require_bytes, require_mode
from .work import Setting

WAYS = {"allreduce": 2, "barrier": 2, "reduce": 1, "broadcast": 1}
"""How many of the two ways a collective needs: up, down, or both."""


def simulate_in_network(collective: str, nbytes: int, setting: Setting, *, mode: str = "flows") -> Outcome:
    """A collective that the switches of a topology carry out."""
    require_mode(mode)
    require_bytes(nbytes)
    on, machine = setting.topology, setting.machine
    if collective not in WAYS:
        raise ConfigError(f"switches do not add up a {collective}; they can: {', '.join(WAYS)}")
    if not on.has_switches:
        raise ConfigError(f"{on.name} has no switches that could add up; choose switch, fat-tree or hierarchy")
    n = 0 if collective == "barrier" else nbytes
    up, down = collective != "broadcast", collective != "reduce"
    alpha = machine.link.alpha * float(setting.slowness.max()) + setting.hop * _height(setting)
    port = n * machine.link.beta * float(setting.slowness.max())
    fullest = n * float(setting.link_beta.max(initial=0.0))
    ways = WAYS[collective] if on.p > 1 else 0
    streamed = mode == "flows" and ways == 2
    beta, waiting = port, max(0.0, fullest - port)
    turns = 1 if streamed else ways
    terms = Terms(ways * alpha, turns * beta, 0.0, turns * waiting)
    return Outcome(
        mode=mode,
        collective=collective,
        algorithm="in_network",
        p=on.p,
        nbytes=nbytes,
        machine=machine,
        topology=on,
        rounds=ways,
        messages=ways * on.p if ways else 0,
        time=sum(terms),
        bound=bound_time(COLLECTIVES[collective], on.p, n, machine),
        terms=terms,
        loads=_loads(setting, n, up=up and ways > 0, down=down and ways > 0),
        ended=np.full(on.p, sum(terms)),
    )


def _height(setting: Setting) -> int:
    """How many shared links there are on the way up."""
    return len(setting.topology.groups) // 2


def _loads(setting: Setting, n: int, *, up: bool, down: bool) -> Loads:
    """The vector once through every port and, in each group of the tree, through its first link."""
    on, beta = setting.topology, setting.machine.link.beta
    links = np.zeros(on.links)
    for index, group in enumerate(on.groups):
        if (up, down)[index % 2]:
            links[group.first : group.first + group.rows * group.columns : group.columns] = n
    out, into = np.full(on.p, float(n * up)), np.full(on.p, float(n * down))
    busy = beta * setting.slowness
    return Loads(links, links * setting.link_beta, out, out * busy, into, into * busy)
