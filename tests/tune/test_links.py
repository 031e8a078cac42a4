"""Which algorithm for ranks that are joined by links: by size, by hosts, and the same on every rank."""

import pytest

from unisono.interpret.verify import verify
from unisono.schedule.conditions import COLLECTIVES
from unisono.tune.links import Place, select

KB, MB = 1 << 10, 1 << 20
FOUR_HOSTS = Place((1, 1, 1, 1), 2)


def names(collective: str, p: int, place: Place, *sizes: int) -> list[str]:
    return [select(collective, p, nbytes, place=place).name for nbytes in sizes]


def test_a_place_knows_the_ranks_of_each_host_only_if_they_are_consecutive() -> None:
    assert Place.of(["a", "a", "b"], 2) == Place((2, 1), 2)
    assert Place.of(["a", "b", "a"], 2) == Place((), 2)
    assert Place.of([], 2) == Place((), 2)
    assert Place.of(["a"] * 3, 2).is_crowded
    assert not Place.of(["a"] * 2, 2).is_crowded
    assert not Place.of(["a", "a", "a", "b"], 2).is_crowded


def test_two_ranks_exchange_vectors_of_any_size() -> None:
    for place in (Place((2,), 2), Place((2,), 1), Place((1, 1), 2)):
        assert names("allreduce", 2, place, 8, 64 * KB, 64 * MB) == ["exchange"] * 3


def test_more_ranks_than_cores_send_few_messages_of_small_vectors() -> None:
    assert names("allreduce", 4, Place((4,), 2), 8, 64 * KB) == ["mst"] * 2
    assert names("allreduce", 4, Place((4,), 4), 8, 16 * KB) == ["exchange"] * 2
    for cores in (2, 4):
        assert names("allreduce", 4, Place((4,), cores), 256 * KB, 64 * MB) == ["direct", "ring"]


def test_between_hosts_large_vectors_go_round_a_ring_and_small_ones_in_few_rounds() -> None:
    assert names("allreduce", 4, FOUR_HOSTS, 8, 32 * KB, 64 * MB) == ["recursive_doubling", "direct", "ring"]
    assert names("allgather", 4, FOUR_HOSTS, 8, 64 * MB) == ["bruck", "ring"]
    assert names("reduce_scatter", 4, FOUR_HOSTS, 8, 64 * MB) == ["circulant", "ring"]
    assert names("allreduce", 16, Place((1,) * 16, 2), 256 * KB) == ["circulant"], "16 at once are too many"


def test_a_large_broadcast_between_hosts_is_a_chain_of_many_segments() -> None:
    schedule = select("broadcast", 4, 64 * MB, place=FOUR_HOSTS, root=2)
    assert (schedule.name, schedule.root) == ("pipelined_chain", 2)
    assert schedule.parameters["segments"] >= 64
    assert names("broadcast", 4, FOUR_HOSTS, 8) == ["mst"]


def test_hosts_with_several_ranks_are_a_hierarchy() -> None:
    schedule = select("allreduce", 5, 64 * MB, place=Place((2, 3), 2))
    assert (schedule.name, schedule.parameters["hosts"]) == ("hierarchical", (2, 3))
    assert names("allreduce", 5, Place((2, 3), 2), 8) == ["recursive_doubling"]
    assert names("allreduce", 5, Place((), 2), 64 * MB) == ["ring"], "of scattered ranks there is none"


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_whatever_is_selected_is_right(collective: str) -> None:
    for p in (1, 2, 3, 4, 8, 9):
        for place in (Place((p,), 2), Place((p,), 16), Place((1,) * p, 2), Place((p - 1, 1), 2), Place()):
            if 0 in place.hosts:
                continue
            for nbytes in (0, 8, 64 * KB, 256 * KB, 64 * MB):
                schedule = select(collective, p, nbytes, p // 2, place=place)
                assert schedule.workers == p
                assert verify(schedule.table).right


def test_reproducible_is_what_folds_from_the_left() -> None:
    for place in (Place((4,), 2), FOUR_HOSTS):
        for nbytes in (8, 64 * MB):
            assert select("allreduce", 4, nbytes, place=place, reproducible=True).name in ("direct", "exchange")


def test_larger_vectors_never_go_back_to_an_algorithm_of_smaller_ones() -> None:
    for place in (Place((4,), 2), Place((4,), 8), FOUR_HOSTS, Place((2, 2), 2)):
        for collective in ("allreduce", "allgather", "reduce_scatter", "reduce", "broadcast"):
            chosen = names(collective, 4, place, *(1 << exponent for exponent in range(28)))
            runs = [name for i, name in enumerate(chosen) if i == 0 or name != chosen[i - 1]]
            assert len(runs) == len(set(runs)), runs
