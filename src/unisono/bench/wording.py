"""Sizes and times in three digits, as tables and pictures show them."""

from __future__ import annotations


def name_size(nbytes: float) -> str:
    """8 B, 1 KiB; nothing at all is a dash."""
    if not nbytes:
        return "–"
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if nbytes >= factor:
            return f"{nbytes / factor:.4g} {unit}"
    return f"{nbytes:.4g} B"


def name_time(microseconds: float) -> str:
    """1.82 µs, 22.2 ms."""
    for unit, factor in (("s", 1e6), ("ms", 1e3)):
        if microseconds >= 0.9995 * factor:  # else it would be shown as 1e+03
            return f"{microseconds / factor:.3g} {unit}"
    return f"{microseconds:.3g} µs"
