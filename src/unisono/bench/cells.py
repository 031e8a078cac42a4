"""What is measured: a collective, in one of its variants, on so many ranks and bytes."""

from __future__ import annotations

from typing import NamedTuple

from ..errors import ConfigError
from ..values import nearest

IN_PLACE, OUT_OF_PLACE, FRESH = "in-place", "oop", "fresh"
VARIANTS = {
    "allreduce": (IN_PLACE, OUT_OF_PLACE, FRESH),
    "broadcast": (OUT_OF_PLACE, FRESH),
    "reduce": (OUT_OF_PLACE, FRESH),
    "allgather": (OUT_OF_PLACE, FRESH),
    "reduce_scatter": (OUT_OF_PLACE, FRESH),
    "scatter": (OUT_OF_PLACE, FRESH),
    "gather": (OUT_OF_PLACE, FRESH),
    "barrier": (OUT_OF_PLACE,),
}
"""Of each collective, the usual one first."""


class Cell(NamedTuple):
    """One place in the table of results. A barrier has no bytes."""

    collective: str
    variant: str
    ranks: int
    nbytes: int

    @property
    def title(self) -> str:
        """Without ranks and size."""
        names = {IN_PLACE: " in place", OUT_OF_PLACE: " out of place", FRESH: " fresh"}
        only_form = self.variant == VARIANTS[self.collective][0] != IN_PLACE
        return self.collective + ("" if only_form else names[self.variant])


def plan_cells(collectives: list[str], variant: str | None, ranks: list[int], sizes: list[int]) -> list[Cell]:
    """All that the lists ask for, in their order, once."""
    cells = []
    for collective in collectives:
        if collective not in VARIANTS:
            known = tuple(VARIANTS)
            raise ConfigError(
                f"--collective {collective!r}: valid is one of {', '.join(known)}{nearest(collective, known)}"
            )
        valid = VARIANTS[collective]
        chosen = variant or valid[0]
        if chosen not in valid:
            raise ConfigError(f"--variant {chosen!r}: {collective} has {', '.join(valid)}{nearest(chosen, valid)}")
        for p in ranks:
            cells += [Cell(collective, chosen, p, nbytes) for nbytes in ([0] if collective == "barrier" else sizes)]
    return list(dict.fromkeys(cells))
