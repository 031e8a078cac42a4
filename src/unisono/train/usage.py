"""Parameters that got no gradient, on some ranks or on all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..errors import ConfigError, MismatchError
from .layout import Parameter

if TYPE_CHECKING:
    from ..comm.communicator import Communicator


def partly_used(flags: Sequence[float], ranks: int) -> list[int]:
    """The numbers of parameters that some rank, or all, had no gradient for; flags are averages over the ranks."""
    return [number for number, flag in enumerate(flags) if flag < 1 - 0.5 / ranks]


def refuse(
    comm: Communicator, parameters: Sequence[Parameter], numbers: Sequence[int], unused_here: Sequence[str]
) -> None:
    """Raise what names the parameter and the ranks. All ranks have come here, because all have the same flags."""
    here = np.array([parameters[number].name in unused_here for number in numbers], np.uint8)
    table = comm.allgather(here)
    name, without = parameters[numbers[0]].name, np.flatnonzero(table[:, 0]).tolist()
    more = f" (and {len(numbers) - 1} more parameters)" if len(numbers) > 1 else ""
    advice = 'unused="zero" lets it count as 0'
    if len(without) == comm.size:
        raise ConfigError(
            f"parameter {name}{more} got no gradient on any rank: backward does not come there; leave it out "
            f"(torch: requires_grad=False), or {advice}"
        )
    ranks = f"rank{'s' * (len(without) > 1)} {', '.join(map(str, without))}"
    error = MismatchError(
        f"parameter {name}{more} got no gradient on {ranks} in this step, but on others: the ranks compute different "
        f"things; {advice}"
    )
    error.ranks = tuple(without)
    raise error
