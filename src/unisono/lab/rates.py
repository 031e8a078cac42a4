"""The rates of links, as tc writes them: 1gbit, 100mbit."""

from __future__ import annotations

import re
from difflib import get_close_matches

from ..errors import ConfigError

UNITS = {"tbit": 10**12, "gbit": 10**9, "mbit": 10**6, "kbit": 10**3, "bit": 1}
SLOWEST, FASTEST = 10**6, 10**12


def parse_rate(text: str) -> int:
    """Bits per second."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z/]*)\s*", text.lower())
    if match is None:
        raise ConfigError(f"{text!r} is not a rate; write it as 1gbit or 100mbit")
    number, unit = match.groups()
    if unit not in UNITS:
        near = get_close_matches(unit, UNITS, n=1, cutoff=0) if unit else ["gbit"]
        raise ConfigError(f"{text!r}: a rate has no unit {unit!r}; did you mean '{number}{near[0]}'?")
    bits = float(number) * UNITS[unit]
    if not SLOWEST <= bits <= FASTEST:
        nearest = format_rate(SLOWEST if bits < SLOWEST else FASTEST)
        raise ConfigError(f"{text!r}: rates go from 1mbit to 1tbit; the nearest is {nearest}")
    return round(bits)


def format_rate(bits: int | None) -> str:
    """As tc reads it; the shortest that is exact."""
    if bits is None:
        return "unlimited"
    unit = next(unit for unit, factor in UNITS.items() if bits >= factor)
    return f"{bits / UNITS[unit]:.10g}{unit}"
