"""A rank that fails in the middle of a call: who is stuck where, and who waits for whom."""

import numpy as np
import pytest

from unisono.errors import ConfigError
from unisono.interpret.machine import Link, Machine
from unisono.schedule.catalog import find
from unisono.simulate import Outcome, simulate

MACHINE = Machine(Link(1e-5, 1e-9), 0.0)
N = 8000


def fail(name: str, p: int, at: tuple[int, int], on: str = "switch", **options) -> Outcome:
    return simulate(find("allreduce", name).schedule(p), N, MACHINE, on, fail=at, **options)


@pytest.mark.parametrize("on", ["switch", "torus:2x4"])
def test_a_ring_stalls_from_the_neighbours_outwards(on: str) -> None:
    """Rank 2 never begins round 3 (from 0). Its neighbours are stuck there, theirs a round later, and so on."""
    stall = fail("ring", 8, (2, 3), on).stall
    assert stall is not None
    distance = np.minimum((np.arange(8) - 2) % 8, (2 - np.arange(8)) % 8)
    assert stall.last_round.tolist() == np.where(distance == 0, 3, 2 + distance).tolist()
    assert stall.waits_for[[1, 3]].tolist() == [2, 2]
    assert stall.waits_for[2] == -1
    assert stall.waits_for[4] == 3
    assert stall.stuck == 7


def test_the_time_is_when_nothing_moves_any_more() -> None:
    found = fail("ring", 8, (2, 3))
    assert found.stall is not None
    assert found.time == pytest.approx((3 + 3) * (1e-5 + N / 8 * 1e-9))  # the rank opposite begins round 6 last
    assert found.time == found.stall.since.max()


@pytest.mark.parametrize("on", ["switch", "ring"])
@pytest.mark.parametrize("name", ["ring", "direct", "mst", "halving_doubling"])
def test_messages_and_loads_are_of_what_happened(name: str, on: str) -> None:
    for round_ in (0, 1):
        found = fail(name, 8, (2, round_), on, record=True)
        flights = found.flights
        assert flights is not None
        assert found.messages == len(flights.round)
        assert np.allclose(found.loads.out, np.bincount(flights.source, flights.nbytes, 8))
        assert np.allclose(found.loads.into, np.bincount(flights.target, flights.nbytes, 8))
        assert found.utilisation(found.bottleneck) <= 1 + 1e-9
        assert found.rounds <= simulate(find("allreduce", name).schedule(8), N, MACHINE, on).rounds


def test_a_rank_whose_work_is_done_holds_nobody_up() -> None:
    schedule = find("reduce", "mst").schedule(4)
    found = simulate(schedule, N, MACHINE, fail=(3, 1))
    assert not found.never_ends
    assert found.time == simulate(schedule, N, MACHINE).time


def test_ranks_that_are_through_are_not_stuck() -> None:
    schedule = find("broadcast", "mst").schedule(8)
    stall = simulate(schedule, N, MACHINE, fail=(4, 1)).stall  # it has the vector, and hands it to no one
    assert stall is not None
    assert stall.last_round[:4].tolist() == [-1] * 4
    assert stall.last_round[4] == 1
    assert stall.stuck == 3


def test_lockstep_stops_for_all_at_once() -> None:
    found = fail("ring", 8, (2, 3), mode="lockstep")
    assert found.stall is not None
    assert set(found.stall.last_round) == {3}
    assert found.time == pytest.approx(3 * (1e-5 + N / 8 * 1e-9))


def test_a_round_that_there_is_not_is_answered_with_the_last() -> None:
    with pytest.raises(ConfigError, match="there are 14; the nearest is 14"):
        fail("ring", 8, (2, 14))
    with pytest.raises(ConfigError, match="the nearest is 7"):
        fail("ring", 8, (8, 1))
    with pytest.raises(ConfigError, match="the nearest is 0"):
        fail("ring", 8, (1, -1))
