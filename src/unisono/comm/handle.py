"""A call that goes on while the caller does something else."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

from ..errors import DeadlineExceeded
from .arguments import seconds

if TYPE_CHECKING:
    from concurrent.futures import Future


class Handle:
    """The result of an asynchronous call, now or later. The arrays of the call are not to be touched until then."""

    def __init__(
        self,
        future: Future[Any],
        what: str,
        explain: Callable[[BaseException], BaseException] = lambda error: error,
    ) -> None:
        self._future, self._what, self._explain = future, what, explain

    def wait(self, deadline: float | None = None) -> Any:
        """The result; waits for it for at most ``deadline`` seconds (the call has its own deadline besides)."""
        limit = None if deadline is None else seconds(deadline, or_none_at_all=True)
        try:
            return self._future.result(limit)
        except TimeoutError:
            raise DeadlineExceeded(f"{self._what} was not through after {limit:g} s; it goes on") from None
        except KeyboardInterrupt as error:  # nobody waits any more: the call ends too, here and elsewhere
            raise self._explain(error) from None

    def done(self) -> bool:
        """Is the call through, well or badly?"""
        return self._future.done()

    def __await__(self) -> Generator[Any, None, Any]:
        import asyncio  # slow to import, and few await

        # Shielded: a task that gives up waiting must not take back a call that the other ranks make.
        return asyncio.shield(asyncio.wrap_future(self._future)).__await__()

    def __repr__(self) -> str:
        return f"<Handle of {self._what}, {'done' if self.done() else 'under way'}>"
