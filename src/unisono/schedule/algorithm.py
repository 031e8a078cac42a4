"""An algorithm: a pattern with a name, a collective that it carries out, and defaults for its parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..errors import ScheduleError
from .conditions import Collective
from .ir import Ints
from .pattern import Pattern, named_parameters, only_named
from .schedule import Schedule


@dataclass(frozen=True)
class Parameter:
    """A choice that an algorithm leaves open: what it is for p ranks if nobody says, and what it may be."""

    default: Callable[[int], Any]
    valid: Callable[[int, Any], bool] = lambda p, value: True
    rule: str = ""


@dataclass(frozen=True)
class Algorithm:
    """One row of the catalogue.

    ``blocks(p, …)`` is the number of blocks that the vector is cut into, ``shares(p, …)`` their relative sizes if they
    are not equal, ``workers(p, …)`` how many ranks contribute if not all do. ``parameters`` are those of the pattern
    other than the root.
    """

    collective: Collective
    name: str
    pattern: Pattern
    blocks: Callable[..., int]
    paper: str = ""
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    shares: Callable[..., Ints] | None = None
    workers: Callable[..., int] | None = None

    @property
    def summary(self) -> str:
        """What it does, in a line."""
        return self.pattern.summary

    def schedule(self, p: int, root: int = 0, **parameters: Any) -> Schedule:
        """The schedule for p ranks."""
        if p < 1:
            raise ScheduleError(f"a schedule needs at least 1 rank, not {p}")
        if not 0 <= root < p:
            raise ScheduleError(f"root {root} is out of range: {p} ranks are numbered 0 to {p - 1}")
        if unknown := parameters.keys() - self.parameters.keys():
            known = ", ".join(sorted(self.parameters)) or "none"
            raise ScheduleError(f"{self.name} has no parameter {min(unknown)!r}; it has: {known}")
        chosen = {name: parameter.default(p) for name, parameter in self.parameters.items()} | parameters
        for name, value in parameters.items():
            if not self.parameters[name].valid(p, value):
                raise ScheduleError(f"{self.name} on {p} ranks: {name} is {self.parameters[name].rule}, not {value!r}")

        def of(function: Callable[..., Any]) -> Any:
            return function(p, **only_named(named_parameters(function), chosen))

        workers = of(self.workers) if self.workers else p
        return Schedule(
            collective=self.collective,
            name=self.name,
            pattern=self.pattern,
            p=p,
            root=root,
            blocks=of(self.blocks),
            workers=workers,
            shares=of(self.shares) if self.shares else None,
            parameters=chosen | {"workers": workers},
        )
