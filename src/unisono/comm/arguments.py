"""Numbers that a caller gives: each is checked before anything is sent."""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite
from numbers import Real
from operator import index
from typing import Any

from ..errors import ConfigError

LONGEST_DEADLINE = 1e9
"""In seconds: 31 years. The clock cannot count much further, so that what is longer is cut."""


def whole(value: Any, what: str) -> int:
    """A whole number of Python's or NumPy's, as Python's; True and 1.0 are taken for mistakes."""
    try:
        if not isinstance(value, bool):
            return index(value)
    except TypeError:
        pass
    raise ConfigError(f"{what} is a whole number, not {value!r}")


def real(value: Any, what: str) -> float:
    """A number, but no truth value."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise ConfigError(f"{what} is a number, not {value!r}")
    return float(value)


def seconds(deadline: Any, *, or_none_at_all: bool = False) -> float:
    """A time that a call may take."""
    value = real(deadline, "deadline, in seconds,")
    if not isfinite(value) or value < 0 or (value == 0 and not or_none_at_all):
        raise ConfigError(f"deadline is a number of seconds above 0, not {deadline!r}; every wait has an end")
    return min(value, LONGEST_DEADLINE)


def counts_of_rows(counts: Any, ranks: int, rows: int) -> list[int]:
    """How many of so many rows each rank gets."""
    given = [whole(count, "a count of rows") for count in counts] if isinstance(counts, Iterable) else []
    if len(given) != ranks or min(given) < 0 or sum(given) != rows:
        raise ConfigError(f"counts has a number of rows for each of {ranks} ranks, together {rows}; not {counts!r}")
    return given
