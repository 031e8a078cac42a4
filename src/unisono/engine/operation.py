"""The handle of an operation, which is a type of the native core."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:

    class Operation:
        """An operation that was pushed."""

        name: str
        """What it runs, or the name that it was given."""

        where: str
        """file:line of its push."""

        serial: int
        """Its place in the order of pushes."""

        def wait(self, deadline: float | None = None) -> Any:
            """The result; raises what the operation raised, or what it depends on."""

        def done(self) -> bool:
            """Is it through, well or badly?"""

        def cancel(self) -> bool:
            """Do not run it, if it has not begun; what depends on it is not run either."""

        def exception(self) -> BaseException | None:
            """What `wait` would raise, if it is through."""

else:
    from .._native import Operation as Operation
