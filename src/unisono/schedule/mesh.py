"""Meshes and hosts: rings along one dimension after the other, so that no rank has p-1 rounds to wait for."""

from __future__ import annotations

from math import prod

from .combine import dual, on, then
from .ir import Number, Rounds
from .pattern import all_alike, pattern
from .ring import ring_allgather


def mesh_alike(p: int, r: Number, dims: tuple[int, ...]) -> tuple[Number, Number]:
    """Every rank does the same work."""
    return all_alike(p, r)


@pattern(alike=mesh_alike)
def mesh_allgather(p: int, r: Number, dims: tuple[int, ...]) -> Rounds:
    """A ring along the last dimension, then along the one before it with what that collected, and so on."""

    def ring_along(axis: int) -> Rounds:
        extent, stride = dims[axis], prod(dims[axis + 1 :])
        coordinate = r // stride % extent
        plane = r // (stride * extent) * (stride * extent)
        return on(
            ring_allgather(extent, coordinate),
            real=lambda i: r + (i - coordinate) * stride,
            blocks=extent,
            first=lambda b: plane + b * stride,
        )

    for axis in reversed(range(len(dims))):
        yield from ring_along(axis)


mesh_reduce_scatter = dual(
    mesh_allgather, name="mesh_reduce_scatter", summary="A ring along each dimension in turn.", reducing=True
)
mesh_allreduce = then(
    mesh_reduce_scatter,
    mesh_allgather,
    name="mesh_allreduce",
    summary="Rings along each dimension of a mesh: shorter rings, fewer rounds.",
)
