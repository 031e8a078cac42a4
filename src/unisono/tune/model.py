"""A model of the machine: the prices of all terms, what reducing costs, and what the wires of the hosts are like."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import permutations
from math import isfinite
from typing import Any

from ..errors import ConfigError
from .defaults import COSTS, GAMMA
from .place import SLOWNESS, Path, Place
from .terms import KINDS, amounts, columns, kind_of, work_of

LONGEST, MOST = 1e3, 4096
ALIKE = 1.1
"""Wires that differ by less are taken for equal."""


@dataclass(frozen=True)
class Model:
    """What work costs. ``costs`` has seconds by kind of link and name of the price, ``gamma`` seconds per byte by
    type and operator, ``rates`` bytes per second by name of the host. Where paths between hosts differ from that,
    ``path_rates`` has the bytes per second of all of them, and ``path_delays`` the seconds, by `path_name`."""

    costs: Mapping[str, Mapping[str, float]] = field(default_factory=lambda: COSTS)
    gamma: Mapping[str, float] = field(default_factory=lambda: GAMMA)
    rates: Mapping[str, float] = field(default_factory=dict)
    path_rates: Mapping[str, float] = field(default_factory=dict)
    path_delays: Mapping[str, float] = field(default_factory=dict)
    origin: str = "defaults"

    def seconds(
        self, collective: str, text: str, p: int, nbytes: int, place: Place, dtype: str = "float32", op: str = "sum"
    ) -> float:
        """How long a call takes by the algorithm that is written so."""
        prices = self.costs[kind_of(place)]
        found = amounts(collective, text, p, nbytes, place)
        total = 0.0
        for name, amount in zip(columns(kind_of(place)), found, strict=True):  # one after the other: see `Selector`
            total += prices.get(name, 0.0) * amount
        more = self.gamma_of(dtype, op) - self.gamma["float32 sum"]  # which the prices were fitted to
        if more:
            total += max(-0.5 * total, more * work_of(collective, text, p, nbytes, place).reduced * nbytes)
        return total

    def gamma_of(self, dtype: str, op: str) -> float:
        """Seconds to reduce a byte; as for sums of the type if nobody measured it, or else for those of float32."""
        known = (self.gamma.get(f"{kind} {how}") for kind, how in ((dtype, op), (dtype, "sum"), ("float32", "sum")))
        return next(seconds for seconds in known if seconds is not None)

    def at(self, place: Place, names: list[str]) -> Place:
        """The place, with what the wires of its hosts are like, and the paths between them."""
        hosts = list(dict.fromkeys(names))
        if len(place.hosts) != len(hosts):
            return place
        rates = [self.rates.get(name, 0.0) for name in hosts]
        if min(rates, default=0.0) <= 0:
            rates = []
        if rates and max(rates) >= ALIKE * min(rates):
            place = place._replace(slow=tuple(round(SLOWNESS * max(rates) / rate) for rate in rates))
        return place._replace(paths=tuple(self._paths(hosts, rates)))

    def _paths(self, hosts: list[str], rates: list[float]) -> Iterator[Path]:
        """Those that are slower than both of the wires, or farther than the nearest two hosts are."""
        pairs = {(a, b): path_name(hosts[a], hosts[b]) for a, b in permutations(range(len(hosts)), 2)}
        delays = [self.path_delays.get(name, 0.0) for name in pairs.values()]
        nearest = min((delay for delay in delays if delay > 0), default=0.0)
        for (a, b), name in pairs.items():
            rate, delay = self.path_rates.get(name, 0.0), self.path_delays.get(name, 0.0)
            is_slow = bool(rates) and 0 < rate * ALIKE < min(rates[a], rates[b])
            is_far = delay > ALIKE * nearest
            if is_slow or is_far:
                slow = round(SLOWNESS * max(rates) / rate) if is_slow else SLOWNESS
                yield Path(a, b, slow, round(SLOWNESS * delay / nearest) if is_far else SLOWNESS)

    def with_wire(self, round_trip: float, rate: float) -> Model:
        """With prices of a wire on which the shortest way there and back takes so long, at so many bytes per second.

        A part of that time are the cores, to send a message and to receive it; where they are crowded, that has a price
        of its own.
        """
        costs = dict(self.costs)
        for kind in ("wire", "wire_crowded"):
            wire = dict(costs[kind])
            scale = 1 / (rate * (wire["wire_in_step"] + wire["wire_at_once"]))
            wire |= {name: scale * wire[name] for name in ("wire_in_step", "wire_at_once")}
            wire["round"] = max(0.0, round_trip / 2 - 2 * wire.get("message_shared_2^10", 0.0))
            costs[kind] = wire
        return replace(self, costs=costs, origin="defaults, and a look at the wire")

    def facts(self) -> dict[str, Any]:
        """As JSON has it."""
        costs = {kind: dict(prices) for kind, prices in self.costs.items()}
        wires = {name: dict(getattr(self, name)) for name in ("rates", "path_rates", "path_delays")}
        return {"costs": costs, "gamma": dict(self.gamma), **wires, "origin": self.origin}

    @classmethod
    def read(cls, facts: Any) -> Model:
        """From JSON, which may say anything; what it leaves out is as by default."""
        if not isinstance(facts, dict):
            raise ConfigError("a model is an object with costs, gamma and rates")
        costs = facts.get("costs", {})
        if not isinstance(costs, dict) or costs.keys() - KINDS.keys():
            raise ConfigError(f"costs are of {', '.join(KINDS)}")
        read = {kind: _numbers(f"costs of {kind}", prices, columns(kind)) for kind, prices in costs.items()}
        for kind, prices in read.items():
            if sum(prices.values()) <= 0:
                raise ConfigError(f"costs of {kind} are all 0")
        gamma = GAMMA | _numbers("gamma", facts.get("gamma", {}))
        rates, path_rates = (_numbers(name, facts.get(name, {}), highest=1e15) for name in ("rates", "path_rates"))
        path_delays = _numbers("path_delays", facts.get("path_delays", {}))
        origin = str(facts.get("origin", "a file"))[:200]
        return cls({**COSTS, **read}, gamma, rates, path_rates, path_delays, origin)


def path_name(source: str, target: str) -> str:
    return f"{source} → {target}"


def _numbers(what: str, given: Any, names: list[str] | None = None, highest: float = LONGEST) -> dict[str, float]:
    if not isinstance(given, dict) or len(given) > MOST:
        raise ConfigError(f"{what} are an object of numbers")
    if names is not None and (unknown := given.keys() - set(names)):
        raise ConfigError(f"{what} has no {min(unknown)!r}")
    for name, value in given.items():
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not (number and isfinite(value) and 0 <= value <= highest):
            raise ConfigError(f"{what}: {name!r} is {value!r}, but has to be a number from 0 to {highest:g}")
    return {str(name): float(value) for name, value in given.items()}
