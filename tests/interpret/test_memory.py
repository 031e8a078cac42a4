"""Scratch memory: what a schedule needs besides the caller's own arrays."""

import pytest

from unisono.interpret.memory import extra_memory
from unisono.schedule.catalog import algorithms, find


def most(collective: str, name: str, p: int, nbytes: int) -> int:
    schedule = find(collective, name).schedule(p)
    return int(extra_memory(schedule.table, nbytes).max())


def test_a_ring_allreduce_works_in_the_callers_array() -> None:
    assert most("allreduce", "ring", 8, 800) == 0


def test_recursive_doubling_keeps_a_snapshot_of_the_vector() -> None:
    assert most("allreduce", "recursive_doubling", 8, 800) == 800


def test_a_ring_reduce_scatter_has_two_blocks_in_flight() -> None:
    assert most("reduce_scatter", "ring", 8, 800) == 200


def test_a_tree_gather_holds_what_others_hand_in_until_it_is_passed_on() -> None:
    # Rank 4 gathers blocks 5, 6 and 7 beside its own, and hands them to the root.
    schedule = find("gather", "mst").schedule(8)
    memory = extra_memory(schedule.table, 800)
    assert memory.tolist() == [0, 0, 100, 0, 300, 0, 100, 0]


def test_dedicated_servers_hold_their_share() -> None:
    schedule = find("allreduce", "dedicated_servers").schedule(6, servers=2)
    memory = extra_memory(schedule.table, 800)
    assert memory.tolist() == [0, 0, 0, 0, 400, 400]


@pytest.mark.parametrize("algorithm", algorithms(), ids=lambda a: f"{a.collective.name}-{a.name}")
def test_no_algorithm_needs_more_than_another_vector(algorithm) -> None:
    for p in (1, 2, 5, 8):
        schedule = algorithm.schedule(p)
        nbytes = schedule.blocks * p * 8
        assert extra_memory(schedule.table, nbytes).max() <= nbytes
