"""Which variable stands for which object."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar
from weakref import ref

from ..errors import ConfigError


class Deletable(Protocol):
    """A variable."""

    @property
    def deleted(self) -> bool: ...


V = TypeVar("V", bound=Deletable)


def named(name: Any) -> str:
    """What somebody wants a variable, a lane or an operation to be called."""
    if not isinstance(name, str):
        raise ConfigError(f"name is a string, not {name!r}")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise ConfigError("name is a string of characters, without halves of surrogate pairs") from None
    return name


class Tags(Generic[V]):
    """Of one engine. Objects are known by identity, because arrays have no hash, and forgotten when they go."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[ref[Any], V]] = {}
        self._making = threading.RLock()  # whose holder may collect garbage, and so come here again

    def get(self, thing: Any) -> V | None:
        """One that was deleted stands for nothing any more."""
        found = self._known.get(id(thing))
        return found[1] if found is not None and found[0]() is thing and not found[1].deleted else None

    def get_or_make(self, thing: Any, make: Callable[[], V]) -> V:
        """The same one for all who ask."""
        with self._making:
            return self.get(thing) or self._put(thing, make())

    def _put(self, thing: Any, variable: V) -> V:
        known, number = self._known, id(thing)
        try:
            known[number] = ref(thing, lambda gone: _forget(known, number, gone)), variable
        except TypeError:
            raise ConfigError(
                f"a {type(thing).__name__} cannot be tagged, because it cannot be referred to weakly; "
                "use engine.variable()"
            ) from None
        return variable


def _forget(known: dict[int, tuple[ref[Any], V]], number: int, gone: ref[Any]) -> None:
    if number in known and known[number][0] is gone:  # and not of another object at the same address
        del known[number]
