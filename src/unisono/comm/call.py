"""What the user asks for, besides the arrays: the collective, the operator, the root and the algorithm."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from hashlib import blake2b
from typing import Any

from .._native import supports
from ..errors import ConfigError, ScheduleError
from ..schedule.layout import Layout, UnequalBlocks
from ..schedule.schedule import Schedule
from ..schedule.spelling import schedule_named
from .arguments import real
from .arrays import Array

OPS = {name: code for code, name in enumerate(("sum", "prod", "min", "max", "and", "or", "xor"))}
"""The operators, numbered as in native/reduce/reduce.hpp."""

BUILTINS = {sum: "sum", min: "min", max: "max"}


@dataclass(frozen=True)
class PremultipliedSum:
    """A sum of vectors that are multiplied by a factor first."""

    factor: float


def premultiplied_sum(factor: float) -> PremultipliedSum:
    """An operator: every rank's vector is multiplied by the factor before the sum."""
    return PremultipliedSum(real(factor, "the factor of a premultiplied sum"))


@dataclass(frozen=True)
class Call:
    """A call of a collective. Equal calls on arrays of one size and type run the same program.

    The operator is given by name, as Python's own function, or as a premultiplied sum.
    """

    collective: str
    algorithm: str | None = None
    root: int = 0
    op: Any = "sum"
    reproducible: bool = False
    tag: str = ""  # what the ranks call it, if they compare that, too

    def __post_init__(self) -> None:
        object.__setattr__(self, "op", _operator(self.op))

    @property
    def factor(self) -> float:
        """What every rank's vector is multiplied by before the sum."""
        return self.op.factor if isinstance(self.op, PremultipliedSum) else 1.0

    @property
    def averages(self) -> bool:
        return bool(self.op == "avg")

    def operator(self, array: Array) -> int:
        """The native number of the operator; an error if there is none for such elements."""
        number = OPS.get(self.op, OPS["sum"])  # avg and premultiplied_sum are sums, too
        needs_floats = isinstance(self.op, PremultipliedSum) and "float" not in array.dtype
        if not supports(number, array.code) or (self.averages and array.dtype == "bool") or needs_floats:
            raise ConfigError(f"{self.op} is not defined for elements of type {array.dtype}")
        return number

    def check(self, array: Array, size: int) -> None:
        """Raise what would be raised anyway, before anything is written or sent."""
        self.operator(array)
        if self.algorithm is None:
            return
        if not isinstance(self.algorithm, str):
            raise ConfigError(f"algorithm is a name, as `unisono algorithms` lists them, not {self.algorithm!r}")
        try:
            workers = schedule_named(self.collective, self.algorithm, size, self.root).workers
        except ScheduleError as error:
            raise ConfigError(str(error)) from error
        if workers < size:
            raise ConfigError(
                f"{self.algorithm} leaves {size - workers} of {size} ranks out of the result, "
                "but every rank of a communicator takes part in it"
            )

    def fingerprint(self, schedule: Schedule, layout: Layout, dtype: str) -> int:
        """A number of all that the ranks have to agree on."""
        facts = (schedule.collective.name, schedule.name, schedule.root, sorted(schedule.parameters.items()))
        text = repr((facts, repr(self.op) if schedule.collective.reduces else None, layout_key(layout), dtype))
        text += self.tag
        return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")


def layout_key(layout: Layout) -> Any:
    """What two layouts have to have in common to be the same."""
    return layout.starts.tobytes() if isinstance(layout, UnequalBlocks) else layout


def _operator(op: Any) -> str | PremultipliedSum:
    if isinstance(op, PremultipliedSum):
        return op
    names = [*OPS, "avg"]
    name = op if isinstance(op, str) else next((BUILTINS[f] for f in BUILTINS if f is op), "")
    if name not in names:
        near = get_close_matches(name.lower(), names, 1)
        hint = f"did you mean {near[0]!r}? T" if near else "t"
        raise ConfigError(f"there is no operator {op!r}; {hint}here are: {', '.join(names)} and premultiplied_sum")
    return name
