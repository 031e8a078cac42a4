"""What a simulation found: how long, why, and which links were busy."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ..interpret.machine import Machine
from ..schedule.ir import Ints
from .rounds import Floats
from .topology import Topology


class Terms(NamedTuple):
    """Where a time goes: starting messages (α), moving bytes (β), reducing (γ), waiting for others or for a link."""

    alpha: float
    beta: float
    gamma: float
    waiting: float


class Flights(NamedTuple):
    """Messages with the seconds at which both ends were ready, their bytes began to move, and all had arrived.

    ``alone`` is how long their bytes would have moved with nobody in their way.
    """

    round: Ints
    source: Ints
    target: Ints
    nbytes: Floats
    alone: Floats
    ready: Floats
    began: Floats
    ended: Floats


@dataclass(frozen=True)
class Stall:
    """What became of a call in which a rank failed.

    For each rank the round that it never ended (-1: it went through), for whom it waits there, and since when.
    """

    rank: int
    round: int
    last_round: Ints
    waits_for: Ints
    since: Floats

    @property
    def stuck(self) -> int:
        """How many ranks wait for ever, without the one that failed."""
        return int((self.last_round >= 0).sum()) - int(self.last_round[self.rank] >= 0)

    @property
    def rounds_begun(self) -> Ints:
        """By each rank; more than there are by who went through."""
        begun = np.where(self.last_round < 0, np.iinfo(np.int64).max, self.last_round + 1)
        begun[self.rank] = self.round
        return begun


@dataclass(frozen=True)
class LinkUse:
    """A link or a port, its bytes, and the seconds in which it would have carried them alone."""

    name: str
    nbytes: float
    busy: float


@dataclass(frozen=True)
class Loads:
    """Bytes through every shared link, and through both ports of every rank, with the seconds that these take."""

    links: Floats
    links_busy: Floats
    out: Floats
    out_busy: Floats
    into: Floats
    into_busy: Floats


@dataclass(frozen=True)
class Outcome:
    """The result of `simulate`. ``ended`` is when each rank was through; ``time`` when the last one was.

    ``terms`` add up to ``time``: in lockstep those of the busiest rank of each round, otherwise those of the rank that
    ended last. ``bound`` is the time of an algorithm that would meet all lower bounds at once.
    """

    mode: str
    collective: str
    algorithm: str
    p: int
    nbytes: int
    machine: Machine
    topology: Topology
    rounds: int
    messages: int
    time: float
    bound: float
    terms: Terms
    loads: Loads
    ended: Floats = field(repr=False)
    flights: Flights | None = field(default=None, repr=False)
    stall: Stall | None = field(default=None, repr=False)
    mean_waiting: float = 0.0

    @property
    def never_ends(self) -> bool:
        """Does anybody wait for a rank that failed? It may have been through with all that others need."""
        return self.stall is not None and self.stall.stuck > 0

    @property
    def multiple_of_bound(self) -> float:
        return self.time / self.bound if self.bound else 1.0

    @cached_property
    def bottleneck(self) -> LinkUse:
        """What was busy longest. A shared link is named before a port that is as busy."""
        return self.busiest(1)[0]

    def busiest(self, count: int) -> list[LinkUse]:
        """The busiest links and ports, the first most."""
        loads, p = self.loads, self.p
        busy = np.concatenate([loads.links_busy, loads.out_busy, loads.into_busy])
        nbytes = np.concatenate([loads.links, loads.out, loads.into])
        shared = len(loads.links)
        rounded = np.round(busy / (busy.max() or 1.0), 9)

        def name(place: int) -> str:
            if place < shared:
                return self.topology.link_name(place)
            rank, way = (place - shared) % p, "out" if place < shared + p else "in"
            return f"port of rank {rank}, {way}"

        chosen = np.argsort(-rounded, kind="stable")[:count]
        return [LinkUse(name(int(i)), float(nbytes[i]), float(busy[i])) for i in chosen]

    def utilisation(self, use: LinkUse) -> float:
        """The share of the time in which a link was busy."""
        return use.busy / self.time if self.time else 0.0
