"""What is counted of a schedule, against counts by hand."""

import numpy as np
import pytest

from unisono.tune.fit import fit
from unisono.tune.place import Path, Place
from unisono.tune.terms import amounts, columns, logarithm
from unisono.tune.work import work_in_memory, work_over_links

FOUR_HOSTS = Place((1, 1, 1, 1), 2)
ON_ONE_MACHINE = FOUR_HOSTS._replace(machines=(0, 0, 0, 0))


def test_a_ring_over_wires_has_as_many_rounds_and_bytes_as_its_formula() -> None:
    work = work_over_links("allreduce", "ring", 4, FOUR_HOSTS)
    assert (work.rounds, work.messages_busiest, work.messages_shared) == (6, 12, 6)
    assert (work.wire_in_step, work.wire_at_once) == (1.5, 1.5)
    assert (work.moved_busiest, work.reduced) == (3.0, 0.75)


def test_a_tree_is_busier_in_step_than_at_once() -> None:
    work = work_over_links("allreduce", "mst", 4, FOUR_HOSTS)
    assert (work.rounds, work.wire_in_step, work.wire_at_once) == (4, 4.0, 2.0)


def test_ranks_of_a_host_share_its_cores_and_its_wire() -> None:
    one_host = work_over_links("allreduce", "ring", 4, Place((4,), 2))
    assert (one_host.messages_busiest, one_host.messages_shared, one_host.wire_at_once) == (12, 24, 0)
    two_hosts = work_over_links("allreduce", "exchange", 4, Place((2, 2), 2))
    assert two_hosts.wire_at_once == 4.0, "each of 2 ranks sends a vector to each of the 2 others"


def test_a_slow_wire_counts_as_often_as_it_is_slow() -> None:
    work = work_over_links("allreduce", "ring", 4, FOUR_HOSTS._replace(slow=(16, 16, 16, 64)))
    assert work.wire_at_once == 4 * 1.5
    weighted = "weighted:shares=1x1x1x0,segments=64"
    work = work_over_links("allreduce", weighted, 4, FOUR_HOSTS._replace(slow=(16, 16, 16, 64)))
    assert work.wire_at_once == 4.0, "the slow host sends its vector once, and receives the result once"


def test_hosts_on_one_machine_share_its_cores_and_not_their_wires() -> None:
    apart, together = (work_over_links("allreduce", "ring", 4, place) for place in (FOUR_HOSTS, ON_ONE_MACHINE))
    assert (apart.messages_shared, together.messages_shared) == (6, 24)
    assert (apart.moved_shared, together.moved_shared) == (1.5, 6.0)
    assert (together.wire_at_once, together.messages_busiest) == (apart.wire_at_once, apart.messages_busiest)


def test_a_slow_path_counts_for_what_goes_over_it() -> None:
    ahead, across = ((Path(0, target, slow=64),) for target in (1, 2))
    ring = [work_over_links("allreduce", "ring", 4, FOUR_HOSTS._replace(paths=paths)) for paths in ((), ahead, across)]
    assert [work.wire_at_once for work in ring] == [1.5, 6.0, 1.5]
    assert [work.wire_in_step for work in ring] == [1.5, 6.0, 1.5]
    exchange = work_over_links("allreduce", "exchange", 4, FOUR_HOSTS._replace(paths=across))
    assert exchange.wire_at_once == 4.0, "one vector over the slow path takes longer than three through a wire"


def test_a_round_is_as_long_as_its_farthest_message() -> None:
    back = FOUR_HOSTS._replace(paths=(Path(2, 0, far=32), Path(0, 2, far=32)))
    assert work_over_links("allreduce", "ring", 4, back).rounds == 6, "nobody sends that way"
    assert work_over_links("allreduce", "exchange", 4, back).rounds == 2
    assert work_over_links("allreduce", "recursive_doubling", 4, back).rounds == 3, "one of its two rounds"


def test_in_memory_an_exchange_waits_once_and_a_reduction_in_parts_twice() -> None:
    assert work_in_memory("allreduce", "exchange", 2, 2, True).rounds == 1
    assert work_in_memory("allreduce", "direct", 2, 2, True).rounds == 2
    assert work_in_memory("allreduce", "ring", 4, 4, True).rounds == 6
    exchange = work_in_memory("allreduce", "exchange", 2, 2, True)
    assert exchange.moved_shared == 2 + 3, "a copy to the stage; then two are read and one is written"
    staged, lent = (work_in_memory("allreduce", "direct", 2, 2, through) for through in (True, False))
    assert staged.moved_shared - lent.moved_shared == 2, "half of the vector to the stage, and half of it from there"
    assert work_in_memory("allreduce", "exchange", 4, 1, True).moved_shared == 4 * (2 + 5)


def test_a_barrier_moves_nothing() -> None:
    assert work_in_memory("barrier", "exchange", 4, 2, True).moved_shared == 0
    assert work_over_links("barrier", "dissemination", 4, FOUR_HOSTS).wire_at_once == 0


def test_between_knots_a_price_goes_straight_over_the_logarithm() -> None:
    place = Place((2,), 2)
    found = dict(zip(columns("tcp"), amounts("allreduce", "ring", 2, 1 << 18, place), strict=True))
    assert found["byte_2^16"] == found["byte_2^20"] == 0.5 * 2 * (1 << 18)
    assert found["byte_2^12"] == found["byte_2^24"] == 0
    assert logarithm(3 << 10) == 11.5
    assert logarithm(0) == 0


def test_fitted_prices_are_those_that_the_times_were_made_of() -> None:
    random = np.random.default_rng(6)
    work = random.uniform(0, 1, (60, 5)) * [1, 10, 100, 1e6, 1e3]
    prices = np.array([1e-6, 0, 3e-6, 2e-10, 1e-9])
    seconds = work @ prices * random.normal(1, 0.02, 60)
    seconds[::10] *= 3  # the machine did something else
    found = fit(work, seconds)
    assert found.min() >= 0
    assert np.median(np.abs(work @ found / (work @ prices) - 1)) < 0.03


def test_what_was_never_measured_costs_nothing_instead_of_anything() -> None:
    found = fit(np.array([[1.0, 0.0], [2.0, 0.0]]), np.array([1.0, 2.0]))
    assert found == pytest.approx([1.0, 0.0])


def test_of_two_ranks_one_copies_a_window_while_the_other_reduces_the_last_one() -> None:
    apart = work_in_memory("reduce", "flat", 2, 2, True)
    at_once = work_in_memory("reduce", "flat", 2, 2, True, windowed=True)
    assert (apart.moved_shared, at_once.moved_shared) == (5, 3)  # a copy, and two operands and a result
