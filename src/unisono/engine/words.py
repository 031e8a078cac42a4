"""What is raised for operations, and in which words. The native part looks for them here."""

from __future__ import annotations

from concurrent.futures import CancelledError
from contextlib import suppress

from ..errors import DeadlineExceeded, UnisonoError

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


def cancelled(place: str) -> BaseException:
    """For who waits for what depends on an operation that was cancelled."""
    return CancelledError(f"{place}, was cancelled before it began")


def broken(text: str, place: str) -> BaseException:
    """What a native operation threw."""
    return UnisonoError(f"{text}, in {place}")


def dropped() -> BaseException:
    """For an asynchronous operation that nobody can complete any more."""
    return UnisonoError("the completion callback was dropped without having been called, so it can never complete")


def late(what: str, seconds: float) -> BaseException:
    """For who waits with a deadline."""
    return DeadlineExceeded(f"{what} was not through after {seconds:g} s; it goes on")
