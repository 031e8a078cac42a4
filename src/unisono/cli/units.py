"""Quantities as people write them: 64MiB, 30us, 10Gbit, 0.1ns."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from math import isfinite

from ..errors import ConfigError

_PREFIXES = {"": 1, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_BYTES = {prefix + "B": factor for prefix, factor in _PREFIXES.items()} | {
    f"{prefix}iB": 1024.0**power for power, prefix in enumerate("KMGT", start=1)
}
_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ns": 1e-9, "ps": 1e-12}
_BITS = {prefix + unit: factor / 8 for unit in ("bit", "bps") for prefix, factor in _PREFIXES.items()}
_RATES = _BITS | {unit.lower(): rate for unit, rate in _BITS.items()} | _BYTES
"""Bits as tc writes them, too: 10gbit."""


_MOST_BYTES = 1 << 50
"""Of a vector: more than anybody has, and far from where 64 bits end."""


def parse_bytes(text: str) -> int:
    """A number of bytes: 64MiB, 1GB, 4096."""
    value = _parse(text, {"": 1.0} | _BYTES, "a size", "64MiB")
    if value > _MOST_BYTES:
        raise ConfigError(f"{text!r}: a size is up to 1024TiB; the nearest is 1024TiB")
    if value != int(value):
        raise ConfigError(f"{text!r} is not a whole number of bytes; the nearest is {round(value)}")
    return int(value)


def parse_seconds(text: str) -> float:
    """A time: 30us, 1.5ms."""
    return _parse(text, _SECONDS, "a time", "30us")


def parse_bandwidth(text: str) -> float:
    """Bytes per second: 10Gbit, 1.2GB/s."""
    rate = _parse(text.removesuffix("/s"), _RATES, "a bandwidth", "10Gbit")
    if rate == 0:
        raise ConfigError("a bandwidth is above 0, such as 10Gbit")
    return rate


def _parse(text: str, units: Mapping[str, float], what: str, example: str) -> float:
    match = re.fullmatch(r"\s*([-+]?[\d.]+(?:[eE][-+]?\d+)?)\s*([^\d\s.]*)\s*", text)
    try:
        number, unit = float(match[1]), match[2]  # type: ignore[index]
    except (TypeError, ValueError):
        raise ConfigError(f"{text!r} is not {what}; write it as {example}") from None
    if unit not in units:
        near = get_close_matches(unit, units, n=1, cutoff=0) if unit else [re.sub(r"[\d.]", "", example)]
        same_letters = [known for known in units if known.lower() == unit.lower()]
        raise ConfigError(f"{text!r}: {what} has no unit {unit!r}; did you mean {(same_letters or near)[0]!r}?")
    value = number * units[unit]
    if value < 0:
        raise ConfigError(f"{text!r}: {what} is from 0 up; did you mean {text.strip().lstrip('-')!r}?")
    if not isfinite(value):
        raise ConfigError(f"{text!r}: {what} is from 0 up, such as {example}")
    return value


def format_bytes(count: float) -> str:
    """Bytes as a person reads them."""
    units = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
    power = 0
    while count >= 1024 and power < len(units) - 1:
        count, power = count / 1024, power + 1
    return f"{count:.4g} {units[power]}"


def format_seconds(seconds: float) -> str:
    """A time as a person reads it."""
    for unit, factor in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= factor:
            value = seconds / factor
            return f"{value:,.0f} {unit}" if value >= 1000 else f"{value:.3f} {unit}"
    return f"{round(seconds * 1e9, 6):.3g} ns"  # less is left by rounding
