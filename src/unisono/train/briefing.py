"""What the ranks tell each other when a step begins: how much they will weigh, and how the step before went."""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan, nan
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..errors import ConfigError, MismatchError

if TYPE_CHECKING:
    from ..comm.communicator import Communicator
    from ..comm.handle import Handle


@dataclass(frozen=True)
class Brief:
    """Everybody's, by rank. NaN is what a rank does not know."""

    samples: list[float]
    fingerprints: list[float]  # of what all have to have in common
    before: NDArray[np.float64]  # a row for each rank: samples, compute, exposed, the seconds of each bucket

    @property
    def weights(self) -> list[float]:
        """What each gradient is multiplied by before the average: exactly 1 if all have as many samples."""
        unknown = [isnan(count) for count in self.samples]
        if all(unknown):
            return [1.0] * len(self.samples)
        if any(unknown):
            silent = [rank for rank, is_unknown in enumerate(unknown) if is_unknown]
            error = MismatchError(
                f"rank{'s' * (len(silent) > 1)} {', '.join(map(str, silent))} began a step without samples=, the "
                "others with: a gradient cannot be weighted by what is not known; say samples= on all ranks, or on none"
            )
            error.ranks = tuple(silent)
            raise error
        total = sum(self.samples)
        if total <= 0:
            raise ConfigError("no rank has a sample in this step, so its gradients have no average")
        return [count * len(self.samples) / total for count in self.samples]


class Briefing:
    """An exchange that goes on during forward."""

    def __init__(
        self, comm: Communicator, samples: float | None, fingerprint: float, before: NDArray[np.float64]
    ) -> None:
        own = np.array([nan if samples is None else samples, fingerprint, *before])
        self._rows = np.empty((comm.size, len(own)))
        self._handle: Handle = comm.start("allgather", own, out=self._rows)
        self._brief: Brief | None = None

    def is_through(self) -> bool:
        return self._handle.done()

    def wait(self) -> Brief:
        """What everybody said."""
        if self._brief is None:
            self._handle.wait()
            self._brief = Brief(self._rows[:, 0].tolist(), self._rows[:, 1].tolist(), self._rows[:, 2:])
        return self._brief
