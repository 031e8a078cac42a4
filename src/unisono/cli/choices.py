"""What a person chooses, as it is written: rank=7,x=4, 3@12."""

from __future__ import annotations

import re

from ..errors import ConfigError
from ..schedule import catalog

MOST_RANKS = 1 << 20


def parse_straggler(text: str) -> tuple[int, float]:
    """A rank, and how many times as slow it is."""
    match = re.fullmatch(r"\s*rank\s*=\s*(-?\d+)\s*,\s*x\s*=\s*([-+\d.eE]+)\s*", text)
    try:
        return int(match[1]), float(match[2])  # type: ignore[index]
    except (TypeError, ValueError):
        raise ConfigError(f"{text!r} is not a straggler; write it as rank=7,x=4") from None


def parse_failure(text: str) -> tuple[int, int]:
    """A rank, and the round that it never begins, counted from 0; people count from 1."""
    match = re.fullmatch(r"\s*(-?\d+)\s*@\s*(-?\d+)\s*", text)
    if match is None:
        raise ConfigError(f"{text!r} is not a failure; write rank@round, such as 3@12")
    if int(match[2]) < 1:
        raise ConfigError(f"{text!r}: rounds count from 1; the nearest is {match[1]}@1")
    return int(match[1]), int(match[2]) - 1


def parse_slow_link(text: str) -> tuple[str, float]:
    """A link, and how many times as slow it is."""
    name, equals, factor = text.rpartition("=")
    try:
        times = float(factor) if equals else 0.0
    except ValueError:
        times = 0.0
    if not name or not 0 < times < float("inf"):
        raise ConfigError(f"{text!r} is not a slow link; write its name and how many times as slow: host 3 up=4")
    return name.strip(), times


def require_ranks(collective: str, ranks: int, root: int) -> None:
    """Can the collective be among so many ranks, from this root?"""
    kind = catalog.collective_named(collective)
    if not 1 <= ranks <= MOST_RANKS:
        raise ConfigError(
            f"--ranks {ranks}: there are 1 to {MOST_RANKS} ranks; the nearest is {clamp(ranks, 1, MOST_RANKS)}"
        )
    if not 0 <= root < ranks:
        nearest = clamp(root, 0, ranks - 1)
        raise ConfigError(f"--root {root}: {ranks} ranks are numbered 0 to {ranks - 1}; the nearest is {nearest}")
    if root and not kind.rooted:
        raise ConfigError(f"--root {root}: {collective} has no root; leave it out")


def clamp(value: int, low: int, high: int) -> int:
    """The nearest valid number."""
    return max(low, min(high, value))
