"""Which variable stands for which object."""

from __future__ import annotations

from typing import Any, Generic, TypeVar
from weakref import ref

from ..errors import ConfigError

V = TypeVar("V")


class Tags(Generic[V]):
    """Of one engine. Objects are known by identity, because arrays have no hash, and forgotten when they go."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[ref[Any], V]] = {}

    def put(self, thing: Any, variable: V) -> None:
        known, number = self._known, id(thing)
        try:
            known[number] = ref(thing, lambda gone: _forget(known, number, gone)), variable
        except TypeError:
            raise ConfigError(
                f"a {type(thing).__name__} cannot be tagged, because it cannot be referred to weakly; "
                "use engine.variable()"
            ) from None

    def get(self, thing: Any) -> V | None:
        found = self._known.get(id(thing))
        return found[1] if found is not None and found[0]() is thing else None


def _forget(known: dict[int, tuple[ref[Any], V]], number: int, gone: ref[Any]) -> None:
    if number in known and known[number][0] is gone:  # and not of another object at the same address
        del known[number]
