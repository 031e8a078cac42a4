"""``check="strict"``: before each call the ranks compare what they are about to do. If they differ, nothing moves."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..errors import MismatchError
from ..schedule.layout import EqualBlocks
from .arrays import Array, readable
from .call import Call
from .prepared import Preparation, Prepared, Shape


class Check(NamedTuple):
    """A call of all ranks that tells everybody's fingerprint to everybody."""

    ready: Prepared
    source: Array
    target: Array
    rank: int

    def compare(self) -> None:
        """After it has run."""
        own, all_ranks = self.source.values[0], self.target.values.ravel()
        if others := np.flatnonzero(all_ranks != own).tolist():
            error = MismatchError(f"rank {self.rank} and rank {others[0]} are about to make different calls")
            error.ranks = tuple(others)
            raise error


class Agreement:
    """Makes the checks of one rank."""

    def __init__(self, preparation: Preparation) -> None:
        self._preparation = preparation
        self._prepared: Prepared | None = None

    def on(self, ready: Prepared) -> Check:
        """What to run before this call."""
        size = self._preparation.size
        source = readable(np.array([ready.fingerprint], np.uint64))
        if self._prepared is None:
            shape = Shape(EqualBlocks(8 * size, size, 8), part_in=True)
            self._prepared = self._preparation.prepare(Call("allgather"), source, shape, in_place=False)
        kind = ready.kind._replace(collective=f"check before {ready.kind.collective}")
        check = self._prepared._replace(kind=kind, nbytes=ready.nbytes)
        return Check(check, source, readable(np.empty(size, np.uint64)), self._preparation.rank)
