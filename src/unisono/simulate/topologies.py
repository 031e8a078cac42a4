"""Topologies by name: switch, ring, torus:16x16x16, mesh:8x8, fat-tree:16x16x4, hierarchy:512x8."""

from __future__ import annotations

from difflib import get_close_matches
from math import prod

from ..errors import ConfigError
from ..schedule.arithmetic import near_equal_factors
from .grid import Grid
from .nearest import nearest_extents
from .topology import Switch, Topology
from .tree import Tree

__all__ = ["KINDS", "Topology", "topology"]

KINDS = ("switch", "ring", "fat-tree", "torus", "mesh", "hierarchy")
EXAMPLES = {"torus": 3, "mesh": 2, "fat-tree": 3, "hierarchy": 2}
"""How many extents each has if nobody says which."""


def topology(text: str, p: int, *, oversubscription: float = 1.0) -> Topology:
    """The topology of p ranks that is written so; extents that are not given are as equal as p allows."""
    kind, colon, extents = text.strip().lower().partition(":")
    if kind not in KINDS:
        near = get_close_matches(kind, KINDS, n=1, cutoff=0)[0]
        raise ConfigError(f"no topology is called {kind!r}; did you mean {near!r}? There are: {', '.join(KINDS)}")
    if p < 1:
        raise ConfigError(f"a topology needs at least 1 rank, not {p}")
    if not oversubscription >= 1:
        raise ConfigError(f"an oversubscription is from 1 (none) up, not {oversubscription:g}; the nearest is 1")
    if oversubscription != 1 and kind != "fat-tree":
        raise ConfigError(f"only a fat-tree is oversubscribed, not a {kind}; leave it out")
    if kind in ("switch", "ring"):
        if colon and _extents(kind, extents) != (p,):
            raise ConfigError(f"{text!r}: a {kind} of {p} ranks is written {kind!r}")
        return Switch(p) if kind == "switch" else Grid(p, (p,), True)
    dims = _extents(kind, extents) if colon else near_equal_factors(p, EXAMPLES[kind])
    if kind == "hierarchy" and len(dims) != 2:
        nearest = _written(kind, nearest_extents((prod(dims[:-1]), dims[-1]), p))
        raise ConfigError(f"{text!r}: a hierarchy is hosts times ranks; the nearest is {nearest}")
    if prod(dims) != p:
        nearest = _written(kind, nearest_extents(dims, p))
        raise ConfigError(f"{_written(kind, dims)} has {prod(dims)} ranks, not {p}; the nearest is {nearest}")
    if kind == "fat-tree":
        return fat_tree(dims, oversubscription)
    return hierarchy(dims) if kind == "hierarchy" else Grid(p, dims, kind == "torus")


def fat_tree(dims: tuple[int, ...], oversubscription: float = 1.0) -> Tree:
    """As many links up from a group as it has ranks, or fewer, at each level by the oversubscription again."""
    levels = ("leaf", "pod", "plane", "hall")[: len(dims) - 1] or ()
    names = levels + tuple(f"level {i}" for i in range(len(levels), len(dims) - 1))
    uplinks = tuple(
        max(1, round(prod(dims[: level + 1]) / oversubscription ** (level + 1))) for level in range(len(dims) - 1)
    )
    title = _written("fat-tree", dims)
    if oversubscription != 1:
        title += f" ({oversubscription:g}:1 oversubscribed)"
    return Tree(prod(dims), dims, uplinks, (1.0,) * len(uplinks), title, names)


def hierarchy(dims: tuple[int, ...]) -> Tree:
    """Hosts of so many ranks, each with one link to a switch; written hosts first: hierarchy:512x8."""
    hosts, ranks = dims
    return Tree(hosts * ranks, (ranks, hosts), (1,), (1.0,), _written("hierarchy", dims), ("host",))


def _written(kind: str, extents: tuple[int, ...]) -> str:
    return f"{kind}:{'x'.join(map(str, extents))}"


def _extents(kind: str, text: str) -> tuple[int, ...]:
    try:
        extents = tuple(map(int, text.split("x")))
    except ValueError:
        extents = ()
    if not extents or min(extents) < 1:
        raise ConfigError(f"{kind}:{text} is not a topology; write whole numbers from 1 up, such as {kind}:16x16")
    return extents
