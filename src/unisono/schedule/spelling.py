"""An algorithm with its parameters, as it is written: pipelined_chain:segments=16, weighted:shares=1x1x0,segments=8."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import ConfigError
from .algorithm import Algorithm
from .catalog import find
from .schedule import Schedule


def parse_algorithm(collective: str, text: str) -> tuple[Algorithm, dict[str, Any]]:
    """An algorithm and its parameters."""
    name, _, rest = text.partition(":")
    return find(collective, name), dict(_parameter(part) for part in rest.split(",") if part)


def schedule_named(collective: str, text: str, p: int, root: int = 0) -> Schedule:
    """The schedule that is written like this, for p ranks."""
    algorithm, parameters = parse_algorithm(collective, text)
    return algorithm.schedule(p, root, **parameters)


def spell(name: str, parameters: Mapping[str, Any]) -> str:
    """The opposite of `parse_algorithm`."""
    parts = [f"{key}={_number(value)}" for key, value in parameters.items() if key != "workers"]
    return f"{name}:{','.join(parts)}" if parts else name


def _number(value: int | tuple[int, ...]) -> str:
    if isinstance(value, int):
        return str(value)
    return f"{value[0]}x" if len(value) == 1 else "x".join(map(str, value))


def _parameter(text: str) -> tuple[str, int | tuple[int, ...]]:
    name, equals, value = text.partition("=")
    try:
        numbers = tuple(map(int, value.removesuffix("x").split("x")))
    except ValueError:
        numbers = ()
    if not equals or not numbers:
        raise ConfigError(f"{text!r} is not a parameter; write segments=16 or dims=4x2")
    return name, numbers if "x" in value else numbers[0]
