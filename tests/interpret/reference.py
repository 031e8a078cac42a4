"""What each collective means, in plain arithmetic on the inputs of all ranks; independent of ``conditions``."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.uint64]


class Job(NamedTuple):
    """The input of every rank, block by block, and what combines two of them; only the first ``workers`` take part."""

    p: int
    root: int
    workers: int
    combine: Callable[[Values, Values], Values]
    inputs: list[list[Values]]

    def total(self, block: int, ranks: int | None = None) -> Values:
        """The block of the first ``ranks`` ranks combined, in rank order."""
        return reduce(self.combine, (vector[block] for vector in self.inputs[: ranks or self.workers]))


RESULTS: dict[str, Callable[[Job, int, int], Values | None]] = {
    "broadcast": lambda job, rank, block: job.inputs[job.root][block],
    "reduce": lambda job, rank, block: job.total(block) if rank == job.root else None,
    "scatter": lambda job, rank, block: job.inputs[job.root][block] if rank == block else None,
    "gather": lambda job, rank, block: job.inputs[block][block] if rank == job.root else None,
    "allgather": lambda job, rank, block: job.inputs[block][block],
    "reduce_scatter": lambda job, rank, block: job.total(block) if rank == block else None,
    "allreduce": lambda job, rank, block: job.total(block) if rank < job.workers else None,
    "alltoall": lambda job, rank, block: job.inputs[block // job.p][block] if rank == block % job.p else None,
    "scan": lambda job, rank, block: job.total(block, rank + 1),
    "barrier": lambda job, rank, block: np.full_like(job.inputs[rank][block], (1 << job.p) - 1),
}


def wanted(collective: str, job: Job, rank: int, block: int) -> Values | None:
    """What a rank must find in a block in the end; None if anything may be there."""
    return RESULTS[collective](job, rank, block)
