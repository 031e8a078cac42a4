"""What is raised for operations, and in which words. The native part looks for them here."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from concurrent.futures import CancelledError
from contextlib import suppress

from ..errors import ConfigError, DeadlineExceeded, UnisonoError
from .dependencies import STATES, Entry

_FIRST_TRACEBACK = "_unisono_traceback"


class Errors(dict[int, BaseException]):
    """What operations raised, by their serial numbers, as long as somebody may be told of it."""


def placed(error: BaseException, place: str) -> BaseException:
    """What an operation raised, with the place of its push."""
    note = f"in {place}"
    if note not in getattr(error, "__notes__", ()):
        error.add_note(note)
        with suppress(AttributeError):  # some have no room for it
            setattr(error, _FIRST_TRACEBACK, error.__traceback__)
    return error


def failed(error: BaseException) -> BaseException:
    """To be raised, once more: the traceback is that of the operation, and not of whom it was raised to before."""
    return error.with_traceback(getattr(error, _FIRST_TRACEBACK, error.__traceback__))


def cancelled(place: str, had_begun: bool) -> BaseException:
    """For who waits for what depends on an operation that was cancelled, or on a future that was."""
    return CancelledError(f"{place}, was cancelled {'while it ran' if had_begun else 'before it began'}")


def broken(text: str, place: str) -> BaseException:
    """What a native operation threw."""
    return UnisonoError(f"{text}, in {place}")


def dropped() -> BaseException:
    """For an asynchronous operation that nobody can complete any more."""
    return UnisonoError("the completion callback was dropped without having been called, so it can never complete")


def late(what: str, seconds: float) -> BaseException:
    """For who waits with a deadline."""
    return DeadlineExceeded(f"{what} was not through after {seconds:g} s; it goes on")


def late_on(variables: Sequence[str], line: str, seconds: float, first: Entry | None) -> BaseException:
    """For who waits for variables with a deadline; the first operation that was not through."""
    what = f"what was pushed on {', '.join(variables)} before the wait at {line}"
    which = f": {first.name}, pushed at {first.where}, {STATES[first.state]}" if first else ""
    return DeadlineExceeded(f"{what} was not through after {seconds:g} s{which}; it goes on")


def of_task(error: BaseException, number: int, size: int) -> BaseException:
    """For a list that was pushed up to there."""
    pushed = f"task {number} of {size}, from 0; the {number} before it were pushed"
    if isinstance(error, ConfigError):
        return ConfigError(f"{error} ({pushed})")
    error.add_note(pushed)
    return error


def flush() -> None:
    """What was printed, before a process ends without the end of Python."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, ValueError, OSError):  # there may be none, or a closed one
            stream.flush()
