"""The catalogue: every algorithm there is, by collective and name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from ..errors import ScheduleError
from . import circulant, direct, hierarchy, mesh, recursive, ring, servers, tree
from .algorithm import Algorithm
from .arithmetic import floor_log2
from .conditions import COLLECTIVES, Collective
from .ir import Ints
from .parameters import FEWER_SERVERS, HOSTS, MESH_2D, MESH_3D, ONE_SEGMENT, SEGMENTS, SERVERS, SHARES
from .pattern import Pattern

BARNETT = (
    "Barnett, Littlefield, Payne & van de Geijn: Global combine on mesh architectures with wormhole routing, IPPS 1993"
)
BRUCK = "Bruck, Ho, Kipnis, Upfal & Weathersby: Efficient algorithms for all-to-all communications, IEEE TPDS 1997"
CHAN = (
    "Chan, Heimlich, Purkayastha & van de Geijn: Collective communication: theory, practice, and experience, CCPE 2007"
)
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


def share_per_server(p: int, servers: int, segments: int) -> int:
    """Every server has one block in each segment."""
    return servers * segments


def shares_in_segments(p: int, shares: tuple[int, ...], segments: int) -> Ints:
    """Every segment is cut into the same shares."""
    return np.tile(np.array(shares), segments)


def row(
    collective: str, name: str, pattern: Pattern, blocks: Callable[..., int], paper: str = "", **more: Any
) -> Algorithm:
    """One algorithm of the catalogue."""
    return Algorithm(COLLECTIVES[collective], name, pattern, blocks, paper, **more)


_BUILT_IN = (
    row("broadcast", "flat", direct.flat_broadcast, one_block),
    row("broadcast", "direct", direct.direct_broadcast, block_per_rank),
    row("broadcast", "mst", tree.mst_broadcast, one_block, CHAN),
    row("broadcast", "ring", ring.ring_broadcast, block_per_rank, CHAN),
    row("broadcast", "recursive_doubling", recursive.recursive_doubling_broadcast, block_per_rank, THAKUR),
    row(
        "broadcast",
        "pipelined_chain",
        tree.pipelined_chain_broadcast,
        lambda p, segments: segments,
        CHAN,
        parameters={"segments": SEGMENTS},
    ),
    row("reduce", "flat", direct.flat_reduce, one_block),
    row("reduce", "direct", direct.direct_reduce, block_per_rank),
    row("reduce", "mst", tree.mst_reduce, one_block, CHAN),
    row("reduce", "ring", ring.ring_reduce, block_per_rank, CHAN),
    row("reduce", "recursive_halving", recursive.recursive_halving_reduce, block_per_rank, RABENSEIFNER),
    row("scatter", "flat", direct.flat_scatter, block_per_rank),
    row("scatter", "mst", tree.mst_scatter, block_per_rank, CHAN),
    row("gather", "flat", direct.flat_gather, block_per_rank),
    row("gather", "mst", tree.mst_gather, block_per_rank, CHAN),
    row("allgather", "flat", tree.flat_allgather, block_per_rank),
    row("allgather", "mst", tree.mst_allgather, block_per_rank, CHAN),
    row("allgather", "ring", ring.ring_allgather, block_per_rank, CHAN),
    row("allgather", "recursive_doubling", recursive.recursive_doubling_allgather, block_per_rank, THAKUR),
    row("allgather", "bruck", circulant.bruck_allgather, block_per_rank, BRUCK),
    row("allgather", "direct", direct.direct_allgather, block_per_rank),
    row("reduce_scatter", "mst", tree.mst_reduce_scatter, block_per_rank, CHAN),
    row("reduce_scatter", "ring", ring.ring_reduce_scatter, block_per_rank, CHAN),
    row(
        "reduce_scatter", "recursive_halving", recursive.recursive_halving_reduce_scatter, block_per_rank, RABENSEIFNER
    ),
    row("reduce_scatter", "circulant", circulant.circulant_reduce_scatter, block_per_rank, TRAEFF),
    row("reduce_scatter", "direct", direct.direct_reduce_scatter, block_per_rank),
    row("allreduce", "flat", direct.flat_allreduce, one_block),
    row("allreduce", "mst", tree.mst_allreduce, one_block, CHAN),
    row("allreduce", "exchange", direct.exchange_allreduce, one_block),
    row("allreduce", "direct", direct.direct_allreduce, block_per_rank),
    row("allreduce", "ring", ring.ring_allreduce, block_per_rank, PATARASUK),
    row("allreduce", "recursive_doubling", recursive.recursive_doubling_allreduce, one_block, THAKUR),
    row(
        "allreduce",
        "halving_doubling",
        recursive.halving_doubling_allreduce,
        lambda p: 1 << floor_log2(p),
        RABENSEIFNER,
    ),
    row("allreduce", "circulant", circulant.circulant_allreduce, block_per_rank, TRAEFF),
    row(
        "allreduce",
        "mesh_2d",
        mesh.mesh_allreduce,
        block_per_rank,
        BARNETT,
        parameters={"dims": MESH_2D},
    ),
    row(
        "allreduce",
        "mesh_3d",
        mesh.mesh_allreduce,
        block_per_rank,
        BARNETT,
        parameters={"dims": MESH_3D},
    ),
    row(
        "allreduce",
        "hierarchical",
        hierarchy.hierarchical_allreduce,
        lambda p, hosts: max(hosts) * len(hosts),
        parameters={"hosts": HOSTS},
    ),
    row(
        "allreduce",
        "double_binary_tree",
        tree.double_binary_tree_allreduce,
        lambda p, segments: 2 * segments,
        SANDERS,
        parameters={"segments": SEGMENTS},
    ),
    row(
        "allreduce",
        "weighted",
        direct.weighted_allreduce,
        lambda p, segments: p * segments,
        "",
        parameters={"shares": SHARES, "segments": SEGMENTS},
        shares=shares_in_segments,
    ),
    row(
        "allreduce",
        "parameter_servers",
        servers.parameter_server_allreduce,
        share_per_server,
        LI,
        parameters={"servers": SERVERS, "segments": ONE_SEGMENT},
    ),
    row(
        "allreduce",
        "dedicated_servers",
        servers.dedicated_server_allreduce,
        share_per_server,
        LI,
        parameters={"servers": FEWER_SERVERS, "segments": ONE_SEGMENT},
        workers=lambda p, servers: max(1, p - servers),
    ),
    row("alltoall", "pairwise", direct.pairwise_alltoall, block_per_pair, THAKUR),
    row("alltoall", "bruck", circulant.bruck_alltoall, block_per_pair, BRUCK),
    row("barrier", "dissemination", circulant.dissemination_barrier, one_block, HENSGEN),
    row("barrier", "exchange", direct.exchange_allreduce, one_block),
    row("barrier", "flat", direct.flat_allreduce, one_block),
    row("scan", "recursive_doubling", recursive.recursive_doubling_scan, one_block, HILLIS),
)

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


def built_in(collective: str) -> list[Algorithm]:
    """Those that every rank has, whoever registered more."""
    return [algorithm for algorithm in _BUILT_IN if algorithm.collective.name == collective]


def collective_named(name: str) -> Collective:
    """One collective."""
    return _choose(name, COLLECTIVES, "collective")


def find(collective: str, name: str) -> Algorithm:
    """One algorithm."""
    return _choose(name, _choose(collective, _catalog, "collective"), f"algorithm for {collective}")


def _choose(name: str, known: dict[str, T], kind: str) -> T:
    if name in known:
        return known[name]
    from difflib import get_close_matches  # for errors only

    near = get_close_matches(name, known, n=1, cutoff=0.4)
    hint = f"did you mean {near[0]!r}?" if near else "there are: " + ", ".join(known)
    raise ScheduleError(f"no {kind} is called {name!r}; {hint}")


for _algorithm in _BUILT_IN:
    add(_algorithm)
