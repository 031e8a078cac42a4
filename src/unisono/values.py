"""Values that people write as text. What is not valid is refused, under the name by which it was given."""

from __future__ import annotations

from math import isfinite

from .errors import ConfigError


def whole(label: str, text: str, *, low: int, high: int | None = None) -> int:
    """A whole number in decimal digits."""
    digits = text.strip()
    number = int(digits) if digits.isascii() and digits.isdecimal() and len(digits) < 10 else -1
    if number < low or (high is not None and number > high):
        up = "up" if high is None else f"to {high}"
        raise ConfigError(f"{label}={text!r}: valid is a whole number from {low} {up}")
    return number


def seconds(label: str, text: str) -> float:
    """Some time."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not isfinite(value) or value <= 0:
        raise ConfigError(f"{label}={text!r}: valid is a number of seconds above 0")
    return value


def nearest(word: str, valid: tuple[str, ...]) -> str:
    """For the end of an error about a word: which one may have been meant."""
    from difflib import get_close_matches  # for errors only

    near = get_close_matches(word, valid, 1)
    return f"; did you mean {near[0]!r}?" if near else ""
