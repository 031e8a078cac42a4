"""The catalogue: every algorithm there is, by collective and name."""

from __future__ import annotations

from dataclasses import replace
from difflib import get_close_matches
from math import prod
from typing import TypeVar

import numpy as np

from ..errors import ScheduleError
from . import circulant, direct, hierarchy, mesh, recursive, ring, servers, tree
from .algorithm import Algorithm, Parameter
from .arithmetic import floor_log2, near_equal_factors
from .conditions import COLLECTIVES, Collective
from .ir import Ints

BARNETT = "Barnett, Littlefield, Payne & van de Geijn: Global combine on mesh architectures with wormhole routing, IPPS 1993"
BRUCK = "Bruck, Ho, Kipnis, Upfal & Weathersby: Efficient algorithms for all-to-all communications, IEEE TPDS 1997"
CHAN = "Chan, Heimlich, Purkayastha & van de Geijn: Collective communication: theory, practice, and experience, CCPE 2007"
HENSGEN = "Hensgen, Finkel & Manber: Two algorithms for barrier synchronization, IJPP 1988"
HILLIS = "Hillis & Steele: Data parallel algorithms, CACM 1986"
LI = "Li et al.: Scaling distributed machine learning with the parameter server, OSDI 2014"
PATARASUK = "Patarasuk & Yuan: Bandwidth optimal all-reduce algorithms for clusters of workstations, JPDC 2009"
RABENSEIFNER = "Rabenseifner: Optimization of collective reduction operations, ICCS 2004"
SANDERS = "Sanders, Speck & Träff: Two-tree algorithms for full bandwidth broadcast, reduction and scan, ParCo 2009"
THAKUR = "Thakur, Rabenseifner & Gropp: Optimization of collective communication operations in MPICH, IJHPCA 2005"
TRAEFF = "Träff: Optimal, non-pipelined reduce-scatter and allreduce algorithms, arXiv:2410.14234, 2024"


def one_block(p: int) -> int:
    """The vector is never cut."""
    return 1


def block_per_rank(p: int) -> int:
    """Block r belongs to rank r."""
    return p


def block_per_pair(p: int) -> int:
    """Block s·p + d goes from rank s to rank d."""
    return p * p


def half(p: int) -> int:
    """Half of the ranks, at least one."""
    return max(1, p // 2)


def shares_in_segments(p: int, shares: tuple[int, ...], segments: int) -> Ints:
    """Every segment is cut into the same shares."""
    return np.tile(np.array(shares), segments)


def is_whole(value: object) -> bool:
    """A number such as 3, and not True or 3.0."""
    return isinstance(value, int) and not isinstance(value, bool)


def are_whole(value: object) -> bool:
    """A tuple of numbers, none below 0."""
    return isinstance(value, tuple) and all(is_whole(x) and x >= 0 for x in value)


SEGMENTS = Parameter(lambda p: 8, lambda p, k: is_whole(k) and k >= 1, "a whole number from 1 up")
ONE_SEGMENT = replace(SEGMENTS, default=lambda p: 1)
SERVERS = Parameter(half, lambda p, k: is_whole(k) and 1 <= k <= p, "a whole number from 1 to that of the ranks")
FEWER_SERVERS = Parameter(
    half, lambda p, k: is_whole(k) and (1 <= k < p or k == p == 1), "a whole number from 1 to one less than that of the ranks"
)
SHARES = Parameter(
    lambda p: (1,) * p,
    lambda p, shares: are_whole(shares) and len(shares) == p and sum(shares) > 0,
    "a whole number for each rank, not all 0",
)
HOSTS = Parameter(
    hierarchy.equal_hosts,
    lambda p, hosts: are_whole(hosts) and sum(hosts) == p and 0 not in hosts,
    "the number of ranks of each host, together all ranks",
)


def mesh_of(dimensions: int) -> Parameter:
    """The extents of a mesh of all ranks."""
    return Parameter(
        lambda p: near_equal_factors(p, dimensions),
        lambda p, dims: are_whole(dims) and prod(dims) == p,
        "the extents of a mesh of all ranks",
    )


_BUILT_IN = (
    # collective, name, pattern, number of blocks, paper, further fields of Algorithm
    ("broadcast", "flat", direct.flat_broadcast, one_block, "", {}),
    ("broadcast", "mst", tree.mst_broadcast, one_block, CHAN, {}),
    ("broadcast", "ring", ring.ring_broadcast, block_per_rank, CHAN, {}),
    ("broadcast", "recursive_doubling", recursive.recursive_doubling_broadcast, block_per_rank, THAKUR, {}),
    (
        "broadcast", "pipelined_chain", tree.pipelined_chain_broadcast, lambda p, segments: segments, CHAN,
        {"parameters": {"segments": SEGMENTS}},
    ),
    ("reduce", "flat", direct.flat_reduce, one_block, "", {}),
    ("reduce", "mst", tree.mst_reduce, one_block, CHAN, {}),
    ("reduce", "ring", ring.ring_reduce, block_per_rank, CHAN, {}),
    ("reduce", "recursive_halving", recursive.recursive_halving_reduce, block_per_rank, RABENSEIFNER, {}),
    ("scatter", "flat", direct.flat_scatter, block_per_rank, "", {}),
    ("scatter", "mst", tree.mst_scatter, block_per_rank, CHAN, {}),
    ("gather", "flat", direct.flat_gather, block_per_rank, "", {}),
    ("gather", "mst", tree.mst_gather, block_per_rank, CHAN, {}),
    ("allgather", "mst", tree.mst_allgather, block_per_rank, CHAN, {}),
    ("allgather", "ring", ring.ring_allgather, block_per_rank, CHAN, {}),
    ("allgather", "recursive_doubling", recursive.recursive_doubling_allgather, block_per_rank, THAKUR, {}),
    ("allgather", "bruck", circulant.bruck_allgather, block_per_rank, BRUCK, {}),
    ("allgather", "direct", direct.direct_allgather, block_per_rank, "", {}),
    ("reduce_scatter", "mst", tree.mst_reduce_scatter, block_per_rank, CHAN, {}),
    ("reduce_scatter", "ring", ring.ring_reduce_scatter, block_per_rank, CHAN, {}),
    (
        "reduce_scatter", "recursive_halving", recursive.recursive_halving_reduce_scatter, block_per_rank,
        RABENSEIFNER, {},
    ),
    ("reduce_scatter", "circulant", circulant.circulant_reduce_scatter, block_per_rank, TRAEFF, {}),
    ("reduce_scatter", "direct", direct.direct_reduce_scatter, block_per_rank, "", {}),
    ("allreduce", "flat", direct.flat_allreduce, one_block, "", {}),
    ("allreduce", "mst", tree.mst_allreduce, one_block, CHAN, {}),
    ("allreduce", "exchange", direct.exchange_allreduce, one_block, "", {}),
    ("allreduce", "direct", direct.direct_allreduce, block_per_rank, "", {}),
    ("allreduce", "ring", ring.ring_allreduce, block_per_rank, PATARASUK, {}),
    ("allreduce", "recursive_doubling", recursive.recursive_doubling_allreduce, one_block, THAKUR, {}),
    (
        "allreduce", "halving_doubling", recursive.halving_doubling_allreduce, lambda p: 1 << floor_log2(p),
        RABENSEIFNER, {},
    ),
    ("allreduce", "circulant", circulant.circulant_allreduce, block_per_rank, TRAEFF, {}),
    (
        "allreduce", "mesh_2d", mesh.mesh_allreduce, block_per_rank, BARNETT,
        {"parameters": {"dims": mesh_of(2)}},
    ),
    (
        "allreduce", "mesh_3d", mesh.mesh_allreduce, block_per_rank, BARNETT,
        {"parameters": {"dims": mesh_of(3)}},
    ),
    (
        "allreduce", "hierarchical", hierarchy.hierarchical_allreduce, lambda p, hosts: max(hosts) * len(hosts),
        "", {"parameters": {"hosts": HOSTS}},
    ),
    (
        "allreduce", "double_binary_tree", tree.double_binary_tree_allreduce, lambda p, segments: 2 * segments, SANDERS,
        {"parameters": {"segments": SEGMENTS}},
    ),
    (
        "allreduce", "weighted", direct.weighted_allreduce, lambda p, segments: p * segments, "",
        {
            "parameters": {"shares": SHARES, "segments": SEGMENTS},
            "shares": shares_in_segments,
        },
    ),
    (
        "allreduce", "parameter_servers", servers.parameter_server_allreduce, lambda p, servers, segments: servers * segments,
        LI, {"parameters": {"servers": SERVERS, "segments": ONE_SEGMENT}},
    ),
    (
        "allreduce", "dedicated_servers", servers.parameter_server_allreduce, lambda p, servers, segments: servers * segments,
        LI,
        {
            "parameters": {"servers": FEWER_SERVERS, "segments": ONE_SEGMENT},
            "workers": lambda p, servers: max(1, p - servers),
        },
    ),
    ("alltoall", "pairwise", direct.pairwise_alltoall, block_per_pair, THAKUR, {}),
    ("alltoall", "bruck", circulant.bruck_alltoall, block_per_pair, BRUCK, {}),
    ("barrier", "dissemination", circulant.dissemination_barrier, one_block, HENSGEN, {}),
    ("scan", "recursive_doubling", recursive.recursive_doubling_scan, one_block, HILLIS, {}),
)  # fmt: skip

T = TypeVar("T")

_catalog: dict[str, dict[str, Algorithm]] = {collective: {} for collective in COLLECTIVES}


def add(algorithm: Algorithm) -> None:
    """Put an algorithm into the catalogue; its name must be new there."""
    known = _catalog[algorithm.collective.name]
    if algorithm.name in known:
        raise ScheduleError(f"{algorithm.collective.name} has an algorithm {algorithm.name!r} already")
    known[algorithm.name] = algorithm


def algorithms(collective: str | None = None) -> list[Algorithm]:
    """The algorithms of a collective, or all."""
    if collective is None:
        return [algorithm for known in _catalog.values() for algorithm in known.values()]
    return list(_choose(collective, _catalog, "collective").values())


def collective_named(name: str) -> Collective:
    """One collective."""
    return _choose(name, COLLECTIVES, "collective")


def find(collective: str, name: str) -> Algorithm:
    """One algorithm."""
    return _choose(name, _choose(collective, _catalog, "collective"), f"algorithm for {collective}")


def _choose(name: str, known: dict[str, T], kind: str) -> T:
    if name in known:
        return known[name]
    near = get_close_matches(name, known, n=1, cutoff=0.4)
    hint = f"did you mean {near[0]!r}?" if near else "there are: " + ", ".join(known)
    raise ScheduleError(f"no {kind} is called {name!r}; {hint}")


for _collective, _name, _pattern, _blocks, _paper, _more in _BUILT_IN:
    add(Algorithm(COLLECTIVES[_collective], _name, _pattern, _blocks, _paper, **_more))
