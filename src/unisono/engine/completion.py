"""How an asynchronous operation is completed."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Callable
from typing import Any, Protocol

from .._native import report_unraisable
from ..errors import ConfigError, UnisonoError

Future = concurrent.futures.Future[Any] | asyncio.Future[Any]


class Token(Protocol):
    """What completes an operation natively, or serially."""

    def complete(self, result: Any) -> bool: ...
    def fail(self, error: BaseException, cancelled: bool = False) -> bool: ...


class Completion:
    """Called once, from any thread, when an operation is through: ``done()``, ``done(result)``, ``done(error=…)``.

    A future as the result stands for its own result, when it has one: ``future.add_done_callback(done)``. Where it is
    dropped without having been called, the operation fails.
    """

    def __init__(self, token: Token, place: str) -> None:
        self._token, self._place = token, place

    def __call__(self, result: Any = None, *, error: BaseException | None = None) -> None:
        if is_future(result):
            if not result.done():
                return self.when(result)
            if result.cancelled():
                return self._check(self._token.fail(concurrent.futures.CancelledError(), True))
            result, error = (None, result.exception()) if result.exception() else (result.result(), None)
        if error is not None and not isinstance(error, BaseException):
            raise ConfigError(f"error is an exception, not {error!r}: the completion callback of {self._place}")
        self._check(self._token.complete(result) if error is None else self._token.fail(error))

    def when(self, future: Future) -> None:
        """Complete it with this future. One of asyncio's belongs to a loop, which is told."""
        if isinstance(future, asyncio.Future):
            future.get_loop().call_soon_threadsafe(future.add_done_callback, self)
        else:
            future.add_done_callback(self)

    def _check(self, is_first: bool) -> None:
        if not is_first:
            raise UnisonoError(f"the completion callback of {self._place}, was called a second time")


def is_future(value: Any) -> bool:
    return isinstance(value, (concurrent.futures.Future, asyncio.Future))


def begin(start: Callable[[Completion], Any], place: str, token: Token) -> None:
    """Start an asynchronous operation; a future that it returns completes it. What start raises is the operation's, or
    if that is through already, nobody's who waits."""
    done = Completion(token, place)
    try:
        result = start(done)
    except KeyboardInterrupt:  # is for the thread, too
        raise
    except BaseException as error:
        if not token.fail(error):
            report_unraisable(error, place)
        return
    if is_future(result):
        done.when(result)
