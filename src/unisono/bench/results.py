"""What a run has found: every figure of every round, and who could not take part."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from ..errors import ConfigError
from .cells import Cell

FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """One cell of one contestant in one round: over the calls, of the slowest rank, in microseconds."""

    round: int
    contestant: str
    collective: str
    variant: str
    ranks: int
    bytes: int
    iterations: int
    median_us: float
    p10_us: float
    p90_us: float
    loop_us: float | None  # the loop divided by its calls, where there is no barrier in it
    algorithm: str | None  # that we chose; the others do not say
    version: str

    @property
    def cell(self) -> Cell:
        return Cell(self.collective, self.variant, self.ranks, self.bytes)


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A contestant that was left out of a round."""

    round: int
    contestant: str
    ranks: int
    what: str
    lines: list[str]  # the last that it wrote
    given_up: bool = False  # on so many ranks it was not tried again


@dataclass(kw_only=True)
class Results:
    """Of a run, complete or as far as it came."""

    links: str
    rounds: int
    budget: float
    ours: list[str]
    peers: list[str] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)  # peer: how to install it
    machine: str = field(default_factory=lambda: describe_machine())
    measurements: list[Measurement] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    interrupted: bool = False

    @property
    def cells(self) -> list[Cell]:
        """In the order in which they were measured first."""
        return list(dict.fromkeys(measurement.cell for measurement in self.measurements))

    def to_json(self, summary: list[dict[str, Any]]) -> str:
        """Everything; the summary is for who reads it, and not read back."""
        values = {"format": FORMAT, **asdict(self), "summary": summary}
        return "{\n" + ",\n".join(f'"{name}": {_lines(value)}' for name, value in values.items()) + "\n}"


def from_json(text: str, name: str) -> Results:
    """What `to_json` wrote."""
    try:
        found = json.loads(text)
        if found["format"] != FORMAT:
            raise ValueError(f"its format is {found['format']}, not {FORMAT}")
        known = {part.name: found[part.name] for part in fields(Results)}
        known["measurements"] = [Measurement(**one) for one in known["measurements"]]
        known["failures"] = [Failure(**one) for one in known["failures"]]
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{name} is not what `unisono bench --json` prints: {error}") from error
    return Results(**known)


def _lines(value: Any) -> str:
    """A line for each figure, instead of for each of its parts."""
    if not isinstance(value, list) or not value:
        return json.dumps(value, ensure_ascii=False)
    return "[\n " + ",\n ".join(json.dumps(one, ensure_ascii=False) for one in value) + "\n]"


def describe_machine() -> str:
    cores = len(os.sched_getaffinity(0))
    system = f"{platform.machine()}, {platform.system()} {platform.release()}"
    return f"{platform.node()}, {cores} core{'s' * (cores > 1)}, {system}"
