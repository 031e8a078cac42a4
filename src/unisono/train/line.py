"""What all steps have in common: the buckets, and the lanes on which each of them is reduced."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .lanes import Lane
from .layout import Bucket, Parameter, expresses
from .places import Places
from .storage import DtypeOf, Storage

if TYPE_CHECKING:
    from .._native import Variable
    from ..engine.engine import Engine


@dataclass
class Line:
    """Buckets by number: their memory, what has come for them, their lanes and, with an engine, their variables."""

    storage: Storage
    places: Places
    lanes: list[Lane]
    lane_of: list[Lane]
    variables: list[Variable | None]

    @classmethod
    def of(
        cls,
        parameters: Sequence[Parameter],
        buckets: list[Bucket],
        lanes: list[Lane],
        dtype_of: DtypeOf,
        engine: Engine | None,
    ) -> Line:
        """The second lane, if there is one, is that of what forward needs first."""
        return cls(
            Storage(lanes[0].comm, parameters, buckets, dtype_of),
            Places(parameters, buckets),
            lanes,
            [lanes[is_express] for is_express in expresses(buckets, len(lanes) > 1)],
            [engine.variable(f"bucket {number}") if engine else None for number in range(len(buckets))],
        )

    def buckets_of(self, lane: Lane) -> list[int]:
        return [number for number, its in enumerate(self.lane_of) if its is lane]
