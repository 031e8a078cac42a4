"""Rounds in lockstep: `price` where nothing is shared, and hand-computed times where something is."""

from math import isclose

import numpy as np
import pytest

from unisono.interpret.machine import Link, Machine
from unisono.interpret.price import price
from unisono.schedule.algorithm import Algorithm
from unisono.schedule.catalog import algorithms, find
from unisono.simulate import simulate, topology

ALPHA, BETA, GAMMA = 3e-6, 2e-9, 5e-10
MACHINE = Machine(Link(ALPHA, BETA), GAMMA)
CATALOGUE = [pytest.param(algorithm, id=f"{algorithm.collective.name}-{algorithm.name}") for algorithm in algorithms()]
N = 24_000


def seconds(name: str, p: int, on: str, *, collective: str = "allreduce", machine: Machine = MACHINE, **more) -> float:
    return simulate(find(collective, name).schedule(p), N, machine, on, mode="lockstep", **more).time


@pytest.mark.parametrize("algorithm", CATALOGUE)
def test_it_equals_price_where_nothing_is_shared(algorithm: Algorithm) -> None:
    for p in (*range(1, 18), 31, 32, 33, 64, 300):
        if p > 64 and algorithm.collective.name == "alltoall":
            continue  # 27 million blocks
        schedule = algorithm.schedule(p, p // 3)
        for nbytes in (0, 1, 1000, 12_345):
            found, expected = simulate(schedule, nbytes, MACHINE, mode="lockstep"), price(schedule, nbytes, MACHINE)
            assert isclose(found.time, expected.time, rel_tol=1e-12)
            assert np.allclose(found.loads.out, expected.sent)
            assert np.allclose(found.loads.into, expected.received)
            assert isclose(sum(found.terms), found.time, rel_tol=1e-12)


def test_it_equals_price_on_hosts_with_faster_links_inside() -> None:
    machine = Machine(MACHINE.link, GAMMA, local=Link(1e-7, 1e-11), hosts=(4, 4, 4))
    for algorithm in algorithms("allreduce"):
        schedule = algorithm.schedule(12)
        found = simulate(schedule, N, machine, mode="lockstep")
        assert isclose(found.time, price(schedule, N, machine).time, rel_tol=1e-12)


@pytest.mark.parametrize("on", ["ring", "torus:3x4", "mesh:12", "fat-tree:3x4", "fat-tree:2x2x3"])
def test_a_ring_needs_no_more_than_price_on_links_between_neighbours(on: str) -> None:
    """On a mesh, the way from the last rank to the first crosses all links, but backwards."""
    schedule = find("allgather", "ring").schedule(12)
    found = simulate(schedule, N, MACHINE, on, mode="lockstep")
    assert isclose(found.time, price(schedule, N, MACHINE).time, rel_tol=1e-12)


def test_partners_at_a_distance_share_the_links_of_a_ring() -> None:
    """Recursive doubling on 8 ranks: 1, 2 and 4 messages share a link (the last of both directions go upwards)."""
    rounds = [ALPHA + shared * N * BETA + N * GAMMA for shared in (1, 2, 4)]
    assert isclose(seconds("recursive_doubling", 8, "ring"), sum(rounds), rel_tol=1e-12)


def test_a_mesh_has_no_way_round() -> None:
    """Distance 4 of 8: on the line, four messages cross the middle in each direction, as on the ring."""
    rounds = [ALPHA + shared * N * BETA + N * GAMMA for shared in (1, 2, 4)]
    assert isclose(seconds("recursive_doubling", 8, "mesh:8"), sum(rounds), rel_tol=1e-12)


def test_pairs_of_an_alltoall_meet_on_a_line() -> None:
    """Distances 1, 2, 3 of 4: 0 → 2 and 1 → 3 share the link between 1 and 2, the others have theirs for themselves."""
    expected = 3 * ALPHA + (1 + 2 + 1) * N / 4 * BETA
    assert isclose(seconds("pairwise", 4, "mesh:4", collective="alltoall"), expected, rel_tol=1e-12)


def test_a_torus_shares_less_than_a_ring_of_as_many() -> None:
    """4x4: distances 1 and 2 along the last dimension, then 4 and 8 are distances 1 and 2 along the first."""
    rounds = [ALPHA + shared * N * BETA + N * GAMMA for shared in (1, 2, 1, 2)]
    assert isclose(seconds("recursive_doubling", 16, "torus:4x4"), sum(rounds), rel_tol=1e-12)
    ring = [ALPHA + shared * N * BETA + N * GAMMA for shared in (1, 2, 4, 8)]
    assert isclose(seconds("recursive_doubling", 16, "ring"), sum(ring), rel_tol=1e-12)


def test_ranks_of_a_host_share_its_link() -> None:
    """4 hosts of 4 ranks: distances 1 and 2 stay inside; 4 and 8 send four messages through each host's link."""
    rounds = [ALPHA + shared * N * BETA + N * GAMMA for shared in (1, 1, 4, 4)]
    assert isclose(seconds("recursive_doubling", 16, "hierarchy:4x4"), sum(rounds), rel_tol=1e-12)


def test_an_oversubscribed_tree_shares_its_uplinks() -> None:
    half = topology("fat-tree:4x4", 16, oversubscription=2)
    schedule = find("allreduce", "recursive_doubling").schedule(16)
    rounds = [ALPHA + shared * N * BETA + N * GAMMA for shared in (1, 1, 2, 2)]
    assert isclose(simulate(schedule, N, MACHINE, half, mode="lockstep").time, sum(rounds), rel_tol=1e-12)
    assert isclose(seconds("recursive_doubling", 16, "fat-tree:4x4"), price(schedule, N, MACHINE).time, rel_tol=1e-12)


def test_messages_of_unequal_sizes_add_up_on_a_link() -> None:
    """A scatter from rank 0 of a host of 3 ranks: blocks for three other ranks cross one link."""
    schedule = find("scatter", "flat").schedule(6)
    found = simulate(schedule, N, MACHINE, "hierarchy:2x3", mode="lockstep")
    assert isclose(found.time, ALPHA + 5 / 6 * N * BETA, rel_tol=1e-12)  # the root's port has five
    slow = topology("hierarchy:2x3", 6).with_slow_link("host 0 up", 4)
    found = simulate(schedule, N, MACHINE, slow, mode="lockstep")
    assert isclose(found.time, ALPHA + 4 * 3 / 6 * N * BETA, rel_tol=1e-12)
    assert found.bottleneck.name == "host 0 up"


def test_hops_take_their_time() -> None:
    found = seconds("recursive_doubling", 8, "ring", hop=1e-6)
    assert isclose(found, seconds("recursive_doubling", 8, "ring") + (1 + 2 + 4) * 1e-6, rel_tol=1e-12)


def test_a_straggler_holds_up_every_round() -> None:
    p, block = 6, N / 6
    every_round = 4 * (ALPHA + block * BETA)
    expected = 2 * (p - 1) * every_round + (p - 1) * 4 * block * GAMMA
    assert isclose(seconds("ring", p, "switch", stragglers={2: 4.0}), expected, rel_tol=1e-12)


def test_twice_the_bandwidth_halves_what_is_not_start_up() -> None:
    faster = Machine(Link(ALPHA, BETA / 2), GAMMA / 2)
    for on in ("switch", "ring", "torus", "mesh", "fat-tree", "hierarchy"):
        before, after = seconds("recursive_doubling", 16, on), seconds("recursive_doubling", 16, on, machine=faster)
        assert isclose(before - 4 * ALPHA, 2 * (after - 4 * ALPHA), rel_tol=1e-9)


def test_topologies_differ() -> None:
    found = {on: seconds("recursive_doubling", 16, on) for on in ("switch", "ring", "torus:4x4", "hierarchy:4x4")}
    assert len({round(value, 12) for value in found.values()}) == 4
    assert found["switch"] < found["torus:4x4"] < found["hierarchy:4x4"] < found["ring"]
