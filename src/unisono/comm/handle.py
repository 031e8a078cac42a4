"""A call that goes on while the caller does something else."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, Protocol

from ..errors import DeadlineExceeded
from .arguments import seconds
from .fork import refuse_handle, this_process

if TYPE_CHECKING:
    from concurrent.futures import Future

    from .._native import Ticket


class Pending(Protocol):
    """What a handle waits for."""

    def done(self) -> bool: ...

    def wait(self, seconds: float | None, *, in_background: bool = False) -> bool:
        """Whether it was through in time. In the background, another thread computes meanwhile."""
        ...

    async def until_done(self) -> None: ...

    def when_done(self, tell: Callable[[], None]) -> None:
        """Call this when it is through, from any thread."""
        ...

    def result(self) -> Any:
        """What it gave; or raises what went wrong."""
        ...


class Started:
    """A call on the core's thread."""

    def __init__(self, ticket: Ticket, finish: Callable[[], Any]) -> None:
        self._ticket, self._finish = ticket, finish

    @property
    def ticket(self) -> Ticket:
        return self._ticket

    def when_done(self, tell: Callable[[], None]) -> None:
        raise AssertionError("its ticket tells without the interpreter")

    def done(self) -> bool:
        return self._ticket.done()

    def wait(self, seconds: float | None, *, in_background: bool = False) -> bool:
        return self._ticket.wait(seconds, in_background)

    async def until_done(self) -> None:
        import asyncio  # slow to import, and few await

        loop, event = asyncio.get_running_loop(), os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        done = asyncio.Event()
        self._ticket.notify(event)
        loop.add_reader(event, done.set)
        try:
            await done.wait()
        finally:
            loop.remove_reader(event)
            os.close(event)

    def result(self) -> Any:
        self._ticket.rethrow()
        return self._finish()


class Submitted:
    """Calls on a thread of Python's."""

    def __init__(self, future: Future[Any], finish: Callable[[], Any] | None = None) -> None:
        self._future, self._finish = future, finish

    def done(self) -> bool:
        return self._future.done()

    def wait(self, seconds: float | None, *, in_background: bool = False) -> bool:
        try:
            self._future.exception(seconds)
        except TimeoutError:
            return False
        return True

    async def until_done(self) -> None:
        import asyncio

        await asyncio.wait([asyncio.wrap_future(self._future)])

    def when_done(self, tell: Callable[[], None]) -> None:
        self._future.add_done_callback(lambda _: tell())

    def result(self) -> Any:
        result = self._future.result()
        return self._finish() if self._finish else result


class Done:
    """A call that needed nobody else."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def done(self) -> bool:
        return True

    def wait(self, seconds: float | None, *, in_background: bool = False) -> bool:
        return True

    async def until_done(self) -> None:
        return

    def when_done(self, tell: Callable[[], None]) -> None:
        tell()

    def result(self) -> Any:
        return self._value


class Handle:
    """The result of an asynchronous call, now or later. The arrays of the call are not to be touched until then."""

    def __init__(self, pending: Pending, what: str, explain: Callable[[BaseException], BaseException]) -> None:
        self._pending, self._what, self._explain = pending, what, explain
        self._outcome: tuple[Any] | None = None
        self._process = this_process()

    @property
    def pending(self) -> Pending:
        """What it waits for."""
        return self._pending

    def wait(self, deadline: float | None = None) -> Any:
        """The result; waits for it for at most ``deadline`` seconds (the call has its own deadline besides)."""
        return self._wait(deadline, in_background=False)

    def wait_in_background(self) -> Any:
        """The result, for a thread beside one that computes and needs the core: to wait here is to sleep at once."""
        return self._wait(None, in_background=True)

    def _wait(self, deadline: float | None, *, in_background: bool) -> Any:
        self._require_process()
        limit = None if deadline is None else seconds(deadline, or_none_at_all=True)
        try:
            if not self._pending.wait(limit, in_background=in_background):
                raise DeadlineExceeded(f"{self._what} was not through after {limit:g} s; it goes on")
        except KeyboardInterrupt as error:  # nobody waits any more: the call ends too, here and elsewhere
            raise self._explain(error) from None
        if self._outcome is None:
            self._outcome = (self._result(),)
        return self._outcome[0]

    def _result(self) -> Any:
        try:
            return self._pending.result()
        except Exception as error:
            cause = self._explain(error)
            if cause is error:
                raise
            raise cause from None

    def done(self) -> bool:
        """Is the call through, well or badly?"""
        self._require_process()
        return self._pending.done()

    def __await__(self) -> Generator[Any, None, Any]:
        return self._awaited().__await__()

    async def _awaited(self) -> Any:
        """A task that gives up waiting does not take the call back, which the other ranks make, too."""
        self._require_process()
        await self._pending.until_done()
        return self.wait()

    def _require_process(self) -> None:
        if self._process is not this_process() and self._outcome is None:
            refuse_handle(self._what, self._process)

    def __repr__(self) -> str:
        if self._process is not this_process():
            return f"<Handle of {self._what}, which process {self._process.pid} started>"
        return f"<Handle of {self._what}, {'done' if self.done() else 'under way'}>"
