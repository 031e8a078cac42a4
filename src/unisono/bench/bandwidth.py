"""Bandwidths as nccl-tests define them."""

from __future__ import annotations

from fractions import Fraction

from .cells import Cell


def bus_factor(collective: str, p: int) -> Fraction:
    """What the busiest wire carries, as a multiple of the vector: then the bus bandwidth is that of the hardware."""
    if collective == "allreduce":
        return Fraction(2 * (p - 1), p)
    if collective in ("allgather", "reduce_scatter", "scatter", "gather"):
        return Fraction(p - 1, p)
    return Fraction(1)


def bandwidths(cell: Cell, microseconds: float) -> tuple[float, float]:
    """Algorithm and bus bandwidth in GB/s."""
    algorithm = cell.nbytes / microseconds / 1e3
    return algorithm, algorithm * float(bus_factor(cell.collective, cell.ranks))
