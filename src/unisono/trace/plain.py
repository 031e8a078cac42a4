"""Named tuples as the plain values of JSON, and back: strictly, as what is read may have been written by anybody."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

LARGEST = 1 << 64


class Unfit(ValueError):
    """A value that is not of its type; says where it is."""


def to_plain(value: Any) -> Any:
    """Named tuples become objects with the names of their fields."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {name: to_plain(part) for name, part in zip(value._fields, value, strict=True)}
    return [to_plain(part) for part in value] if isinstance(value, (list, tuple)) else value


def from_plain(kind: Any, value: Any, place: str = "") -> Any:
    """The value as this type: int, float, str, bool, a named tuple, a list of one of these, or one of these or None."""
    if get_origin(kind) is UnionType:
        (inner,) = (part for part in get_args(kind) if part is not NoneType)
        return None if value is None else from_plain(inner, value, place)
    if get_origin(kind) is list:
        (inner,) = get_args(kind)
        return [from_plain(inner, part, f"{place}[{i}]") for i, part in enumerate(_expect(list, value, place))]
    if kind in _CHECKS:
        return _CHECKS[kind](value, place)
    given, hints = _expect(dict, value, place), _hints(kind)
    if given.keys() != hints.keys():
        names = ", ".join(sorted(map(str, given.keys() ^ hints.keys()))[:3])
        raise Unfit(f"{place or 'it'} has not the fields that it should: {printable(names)[:80]}")
    return kind(**{name: from_plain(hint, given[name], f"{place}.{name}".strip(".")) for name, hint in hints.items()})


def printable(text: str) -> str:
    """Without what would move the cursor of a terminal or change its colours."""
    return "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text)


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def _expect(kind: type, value: Any, place: str) -> Any:
    if type(value) is not kind:
        raise Unfit(f"{place or 'it'} is not a {kind.__name__}")
    return value


def _whole(value: Any, place: str) -> int:
    if not -LARGEST < _expect(int, value, place) < LARGEST:
        raise Unfit(f"{place} is too large")
    return int(value)


def _real(value: Any, place: str) -> float:
    number = value if type(value) is float else float(_whole(value, place))
    if not -LARGEST < number < LARGEST:  # neither are infinity and nan
        raise Unfit(f"{place} is not a number that could be meant")
    return number


_CHECKS: dict[Any, Callable[[Any, str], Any]] = {
    int: _whole,
    float: _real,
    bool: lambda value, place: _expect(bool, value, place),
    str: lambda value, place: printable(_expect(str, value, place)),
}
