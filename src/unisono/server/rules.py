"""How pushes become updates: by a compiled rule, or by a class of yours, which both sides import by its name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import import_module
from math import isfinite
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..comm.arguments import real, whole
from ..errors import ConfigError
from ..values import nearest

LONGEST_RULE = 4096  # bytes, as native/server/spec.cpp has it
MOST_SLOTS = 8
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
        table is one row. ``step`` counts from 1: the updates of this chunk, or, of a sparse table, of any of its rows
        on this shard."""
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
        if not issubclass(update, Rule):
            raise ConfigError(f"update={update.__qualname__}: an update of your own is a subclass of Rule")
        return _describe_class(update, f"{update.__module__}:{update.__qualname__}", options)
    if isinstance(update, str) and ":" in update:
        return _describe_class(_load(update), update, options)
    if update not in UPDATES:
        near = nearest(update.lower(), UPDATES) if isinstance(update, str) else ""
        raise ConfigError(f"update={update!r}: valid is one of {', '.join(UPDATES)}, a Rule or 'module:Rule'{near}")
    known = _RATES[update]
    if unknown := [name for name in options if name not in known]:
        has = ", ".join(known) or "no options"
        raise ConfigError(f"update={update!r} does not know {', '.join(unknown)}: it has {has}")
    rates = {**known, **options}
    if missing := [name for name, value in rates.items() if value is None]:
        raise ConfigError(f"update={update!r} needs {', '.join(missing)}=")
    return Described(UPDATES.index(update), [_rate(update, name, value) for name, value in rates.items()])


def _rate(update: str, name: str, value: Any) -> float:
    number = real(value, f"update={update!r}: {name}")
    if not isfinite(number):
        raise ConfigError(f"update={update!r}: {name} is a finite number, not {value!r}")
    return number


def _describe_class(kind: type[Rule], path: str, options: dict[str, Any]) -> Described:
    if path.startswith("__main__:"):
        raise ConfigError(
            f"update={path!r} is in the script itself, which servers do not run: define it in a module that they import"
        )
    if _load(path) is not kind:
        raise ConfigError(f"update={path!r} is not what can be imported under that name; define it in a module")
    if kind.update is Rule.update:
        raise ConfigError(f"update={path!r} has no method `update`")
    slots = whole(kind.slots, f"update={path!r}: slots")
    if not 0 <= slots <= MOST_SLOTS:
        raise ConfigError(f"update={path!r}: slots={slots}: valid is 0 to {MOST_SLOTS} arrays of state")
    try:
        text = json.dumps(options, sort_keys=True, allow_nan=False)
    except (TypeError, ValueError):
        raise ConfigError(f"update={path!r}: its options travel as JSON, which {options} is not") from None
    rule = f"{path} {text}"
    if len(rule.encode()) > LONGEST_RULE:
        raise ConfigError(f"update={path!r}: its name and options, as JSON, have up to {LONGEST_RULE} bytes")
    return Described(_PYTHON, [], rule, slots)


def _load(path: str) -> type[Rule]:
    module, _, name = path.partition(":")
    try:
        found: Any = import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except Exception as error:  # whatever a module of a user's raises
        raise ConfigError(f"update={path!r} cannot be imported: {error!r}") from None
    if not (isinstance(found, type) and issubclass(found, Rule)):
        raise ConfigError(f"update={path!r} is no subclass of unisono.server.Rule")
    return found


class Rules:
    """On the server: the rules of its tables."""

    def __init__(self) -> None:
        self._made: dict[tuple[str, str], Rule] = {}

    def require(self, table: str, rule: str, slots: int) -> None:
        """Makes the rule; whatever that raises is why there can be no such table."""
        path, _, options = rule.partition(" ")
        kind = _load(path)
        try:
            made = kind(**json.loads(options))
        except Exception as error:  # whatever a class of a user's raises
            raise ConfigError(f"{type(error).__name__}: {error}") from error
        if made.slots != slots:
            raise ConfigError(f"it has {made.slots} slots there, and {slots} where the table is described")
        self._made[table, rule] = made

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
        made = self._made[table, rule]
        shape = rows, width
        made.update(
            np.frombuffer(values, dtype).reshape(shape),
            np.frombuffer(gradients, dtype).reshape(shape),
            np.frombuffer(state, dtype).reshape(made.slots, *shape),
            step,
        )
