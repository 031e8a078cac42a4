"""How pushes become updates: by a compiled rule, or by a class of yours, which both sides import by its name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import import_module
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..errors import ConfigError
from ..values import nearest

UPDATES = ("add", "assign", "sgd", "momentum", "adagrad", "adam")
_PYTHON = len(UPDATES)
_RATES: Mapping[str, dict[str, float | None]] = {
    "add": {},
    "assign": {},
    "sgd": {"lr": None},
    "momentum": {"lr": None, "momentum": 0.9},
    "adagrad": {"lr": None, "epsilon": 1e-10},
    "adam": {"lr": None, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8},
}


class Rule:
    """The base of your own updates. ``slots`` arrays of state, zero at first, are kept for each value, on the server,
    where snapshots and replays find them."""

    slots: ClassVar[int] = 0

    def __init__(self, **options: Any) -> None:
        self.options = options

    def update(self, value: np.ndarray, gradient: np.ndarray, state: np.ndarray, step: int) -> None:
        """Changes ``value`` and ``state[0]``, ``state[1]``, … in place. Arrays are rows × width; a chunk of a dense
        table is one row."""
        raise NotImplementedError


class Described(NamedTuple):
    """A rule as the native core and the wire know it."""

    update: int
    rates: list[float]
    rule: str = ""
    slots: int = 0


def describe(update: str | type[Rule], options: dict[str, Any]) -> Described:
    """What ``update=`` and its options say; what makes no sense is refused."""
    if isinstance(update, type):
        return _describe_class(update, f"{update.__module__}:{update.__qualname__}", options)
    if ":" in update:
        return _describe_class(_load(update), update, options)
    if update not in UPDATES:
        raise ConfigError(
            f"update={update!r}: valid is one of {', '.join(UPDATES)}, or module:class{nearest(update, UPDATES)}"
        )
    known = _RATES[update]
    if unknown := [name for name in options if name not in known]:
        has = ", ".join(known) or "no options"
        raise ConfigError(f"update={update!r} does not know {', '.join(unknown)}: it has {has}")
    rates = {**known, **options}
    if missing := [name for name, value in rates.items() if value is None]:
        raise ConfigError(f"update={update!r} needs {', '.join(missing)}=")
    try:
        return Described(UPDATES.index(update), [float(value) for value in rates.values()])
    except (TypeError, ValueError):
        raise ConfigError(f"update={update!r}: its options are numbers, not {options}") from None


def _describe_class(kind: type[Rule], path: str, options: dict[str, Any]) -> Described:
    if _load(path) is not kind:
        raise ConfigError(f"update={path!r} is not what can be imported under that name; define it in a module")
    try:
        text = json.dumps(options, sort_keys=True)
    except TypeError:
        raise ConfigError(f"update={path!r}: its options travel as JSON, which {options} is not") from None
    return Described(_PYTHON, [], f"{path} {text}", kind.slots)


def _load(path: str) -> type[Rule]:
    module, _, name = path.partition(":")
    try:
        found: Any = import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"update={path!r} cannot be imported: {error}") from None
    if not (isinstance(found, type) and issubclass(found, Rule)):
        raise ConfigError(f"update={path!r} is no subclass of unisono.server.Rule")
    return found


class Rules:
    """On the server: the rules of its tables, made when first used."""

    def __init__(self) -> None:
        self._made: dict[tuple[str, str], Rule] = {}

    def __call__(
        self,
        table: str,
        rule: str,
        dtype: str,
        values: memoryview,
        state: memoryview,
        gradients: memoryview,
        rows: int,
        width: int,
        step: int,
    ) -> None:
        """What the native core calls."""
        made = self._made.get((table, rule))
        if made is None:
            path, _, options = rule.partition(" ")
            made = self._made[table, rule] = _load(path)(**json.loads(options))
        shape = rows, width
        made.update(
            np.frombuffer(values, dtype).reshape(shape),
            np.frombuffer(gradients, dtype).reshape(shape),
            np.frombuffer(state, dtype).reshape(made.slots, *shape),
            step,
        )
