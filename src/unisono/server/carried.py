"""Pushes to a clocked table, which wait for their clock."""

from __future__ import annotations

from ..errors import ConfigError, UnisonoError
from .handle import Handle


class Clock:
    """What became of all pushes of one clock."""

    def __init__(self) -> None:
        self.committed = False
        self.refused: UnisonoError | None = None


class Carried(Handle[None]):
    """One of them: acknowledged when the clock that carries it has been committed. Its array was copied at once."""

    def __init__(self, clock: Clock, what: str) -> None:
        self._clock = clock
        self._what = what

    @property
    def done(self) -> bool:
        return self._clock.committed or self._clock.refused is not None

    def wait(self, deadline: float | None = None) -> None:
        """Nothing to wait for: clock() does."""
        if self._clock.refused:
            raise self._clock.refused
        if not self._clock.committed:
            raise ConfigError(
                f"{self._what} is not sent before clock(), which acknowledges it: call that first, then wait. Its "
                "array has been copied, and is yours already"
            )
