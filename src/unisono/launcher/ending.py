"""How a job is brought to its end: grace, SIGTERM, two seconds, SIGKILL."""

from __future__ import annotations

import signal
import time

GRACE = 5.0
SECONDS_TO_TERMINATE = 2.0


class Ending:
    """The steps that are still to come; none before it has begun."""

    def __init__(self, grace: float = GRACE) -> None:
        self.grace = grace
        self._begun = False
        self._steps: list[tuple[float, signal.Signals]] = []

    def begin(self) -> None:
        """From now on the ranks have their grace. Once begun, a second cause does not prolong it."""
        if not self._begun:
            self._begun = True
            term = time.monotonic() + self.grace
            self._steps = [(term, signal.SIGTERM), (term + SECONDS_TO_TERMINATE, signal.SIGKILL)]

    def hurry(self) -> None:
        """Skip to the last step."""
        self._begun = True
        self._steps = [(time.monotonic(), signal.SIGKILL)]

    def wait(self) -> float | None:
        """Seconds to the next step."""
        return max(0.0, self._steps[0][0] - time.monotonic()) if self._steps else None

    def due(self) -> signal.Signals | None:
        """The signal to send now, once."""
        if self._steps and self._steps[0][0] <= time.monotonic():
            return self._steps.pop(0)[1]
        return None
