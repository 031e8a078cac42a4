"""What the user asks for, besides the arrays: the collective, the operator, the root and the algorithm."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from .._native import supports
from ..errors import ConfigError
from ..schedule.layout import Layout, UnequalBlocks
from ..schedule.schedule import Schedule
from .arrays import Array

OPS = {name: code for code, name in enumerate(("sum", "prod", "min", "max", "and", "or", "xor"))}
"""The operators, numbered as in native/reduce/reduce.hpp."""

BUILTINS: dict[Any, str] = {sum: "sum", min: "min", max: "max"}


@dataclass(frozen=True)
class PremultipliedSum:
    """A sum of vectors that are multiplied by a factor first."""

    factor: float


def premultiplied_sum(factor: float) -> PremultipliedSum:
    """An operator: every rank's vector is multiplied by the factor before the sum."""
    return PremultipliedSum(float(factor))


@dataclass(frozen=True)
class Call:
    """A call of a collective. Equal calls on arrays of one size and type run the same program."""

    collective: str
    algorithm: str | None = None
    root: int = 0
    op: Any = "sum"
    reproducible: bool = False

    @property
    def op_name(self) -> str:
        """The operator that the core runs, or avg."""
        if isinstance(self.op, PremultipliedSum):
            return "sum"
        return self.op if isinstance(self.op, str) else BUILTINS.get(self.op, repr(self.op))

    @property
    def averages(self) -> bool:
        return self.op_name == "avg"

    def operator(self, array: Array) -> int:
        """The native number of the operator; an error if there is none for such elements."""
        name = "sum" if self.averages else self.op_name
        if name not in OPS:
            raise ConfigError(f"there is no operator {self.op!r}; there are: {', '.join([*OPS, 'avg'])}")
        needs_floats = isinstance(self.op, PremultipliedSum) and "float" not in array.dtype
        if not supports(OPS[name], array.code) or (self.averages and array.dtype == "bool") or needs_floats:
            raise ConfigError(f"{self.op} is not defined for elements of type {array.dtype}")
        return OPS[name]

    def fingerprint(self, schedule: Schedule, layout: Layout, dtype: str) -> int:
        """A number of all that the ranks have to agree on."""
        facts = (schedule.collective.name, schedule.name, schedule.root, sorted(schedule.parameters.items()))
        text = repr((facts, repr(self.op) if schedule.collective.reduces else None, layout_key(layout), dtype))
        return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")


def layout_key(layout: Layout) -> Any:
    """What two layouts have to have in common to be the same."""
    return layout.starts.tobytes() if isinstance(layout, UnequalBlocks) else layout
