"""Failures that somebody wants to rehearse, as UNISONO_INJECT says them: ``kill rank=2 call=812 round=4``.

Several are separated by semicolons. Each happens once, to one rank of the communicator that init() makes.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from .errors import ConfigError
from .values import nearest, seconds, whole

LONGEST_PAUSE = 86400.0


class Action(IntEnum):
    """What a rank does to itself; the numbers are those of native/execute/injection.hpp."""

    KILL = 0
    STALL = 1
    DELAY = 2
    DROP = 3


ACTIONS = tuple(action.name.lower() for action in Action)
WORDS = ("rank", "call", "round", "seconds")
EXAMPLE = "kill rank=2 call=812 round=4"


@dataclass(frozen=True)
class Injection:
    """What happens to which rank, when it comes to this round of this call, or to what follows it."""

    action: Action
    rank: int
    call: int = 0  # of all collective calls of the communicator
    round: int = 0  # of the schedule, from 0; people count them from 1
    seconds: float = 0.0  # of a delay; of a stall, if it is to end


def parse_injections(label: str, text: str, size: int) -> tuple[Injection, ...]:
    """All of them, for a job of so many ranks."""
    return tuple(_parse(label, part, size) for part in text.split(";") if part.strip())


def _parse(label: str, text: str, size: int) -> Injection:
    name, *pairs = text.split()
    where = f"{label}: {text.strip()!r}: "
    if name.lower() not in ACTIONS:
        raise ConfigError(
            f"{where}{name!r} is not an action, valid is one of {', '.join(ACTIONS)}{nearest(name.lower(), ACTIONS)}"
        )
    action, given = Action[name.upper()], _words(where, pairs)
    if "rank" not in given:
        raise ConfigError(f"{where}which rank is this for? Write it as in {EXAMPLE!r}")
    if "seconds" in given and action not in (Action.DELAY, Action.STALL):
        raise ConfigError(f"{where}a {name} takes no time; only delay and stall have seconds")
    if "seconds" not in given and action is Action.DELAY:
        raise ConfigError(f"{where}how long? Write it as in 'delay rank=2 seconds=3'")
    pause = seconds(f"{where}seconds", given["seconds"]) if "seconds" in given else 0.0
    if pause > LONGEST_PAUSE:
        raise ConfigError(f"{where}seconds={given['seconds']!r}: valid is at most {LONGEST_PAUSE:.0f}, a day")
    return Injection(
        action,
        whole(f"{where}rank", given["rank"], low=0, high=size - 1),
        whole(f"{where}call", given.get("call", "0"), low=0),
        whole(f"{where}round", given.get("round", "1"), low=1) - 1,
        pause,
    )


def _words(where: str, pairs: list[str]) -> dict[str, str]:
    given: dict[str, str] = {}
    for pair in pairs:
        word, _, value = pair.partition("=")
        if word not in WORDS or not value:
            raise ConfigError(
                f"{where}{pair!r} is not understood, valid is one of {', '.join(f'{known}=' for known in WORDS)} with "
                f"a number and no spaces around the equals sign, and a semicolon before the next failure"
                f"{nearest(word, WORDS)}"
            )
        if word in given:
            raise ConfigError(f"{where}{word}= is given twice")
        given[word] = value
    return given
