"""Something that was started and goes on by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from .._native import Asked
    from .waiting import Waiting

T = TypeVar("T")


class Handle(Generic[T]):
    """What ``push_async``, ``pull_async``, ``push_pull_async`` and ``prefetch`` return. The arrays belong to it until
    it is done, also if a deadline has ended a ``wait``: another one goes on."""

    def __init__(
        self, waiting: Waiting, asked: Asked, what: str, finish: Callable[[Asked], T], *memory: object
    ) -> None:
        self._waiting = waiting
        self._asked = asked
        self._what = what
        self._finish: Callable[[Asked], T] | None = finish
        self._result: T
        waiting.keep(asked, memory)

    @property
    def done(self) -> bool:
        """Whether it is through; ``wait`` says whether that was a success."""
        return self._asked.done

    def wait(self, deadline: float | None = None) -> T:
        """The result; whoever pushed has it acknowledged then."""
        if self._finish:
            self._waiting.go_on(self._asked, self._what, deadline)
            self._result = self._finish(self._asked)
            self._finish = None
        return self._result
