"""Switches that add up: the vector once up and once down, and nothing for the ranks to reduce."""

from math import isclose

import pytest

from unisono.errors import ConfigError
from unisono.interpret.machine import Link, Machine
from unisono.simulate import Outcome, topology
from unisono.simulate.in_network import simulate_in_network
from unisono.simulate.work import Setting

ALPHA, BETA = 1e-5, 1e-9
MACHINE = Machine(Link(ALPHA, BETA), 5e-10)
N = 1 << 20


def run(collective: str = "allreduce", on: str = "switch", p: int = 8, mode: str = "flows", **more) -> Outcome:
    return simulate_in_network(collective, N, Setting(MACHINE, topology(on, p), **more), mode=mode)


def test_in_lockstep_up_and_down_follow_each_other() -> None:
    assert isclose(run(mode="lockstep").time, 2 * (ALPHA + N * BETA))


def test_as_flows_up_and_down_share_the_time_of_one() -> None:
    found = run()
    assert isclose(found.time, 2 * ALPHA + N * BETA)
    assert found.multiple_of_bound < 1  # which holds for ranks that add up
    assert set(found.loads.out) == set(found.loads.into) == {float(N)}


def test_one_way_is_enough_for_a_broadcast_or_a_reduce() -> None:
    for collective in ("broadcast", "reduce"):
        for mode in ("flows", "lockstep"):
            assert isclose(run(collective, mode=mode).time, ALPHA + N * BETA)
    assert run("broadcast").loads.out.sum() == 0


def test_every_group_has_the_vector_once_on_its_way_up_and_down() -> None:
    found = run(on="hierarchy:2x4", hop=1e-6)
    assert found.loads.links.tolist() == [N] * 4
    assert isclose(found.time, 2 * (ALPHA + 1e-6) + N * BETA)
    assert run(on="fat-tree:2x2x2").loads.links.sum() == 2 * (4 + 2) * N


def test_a_slow_link_or_rank_holds_all_up() -> None:
    slow = topology("hierarchy:2x4", 8).with_slow_link("host 1 down", 3)
    found = simulate_in_network("allreduce", N, Setting(MACHINE, slow), mode="flows")
    assert isclose(found.time, 2 * ALPHA + 3 * N * BETA)
    assert found.bottleneck.name == "host 1 down"
    assert isclose(run(stragglers={3: 2.0}).time, 2 * (2 * ALPHA + N * BETA))


def test_one_rank_has_nothing_to_do() -> None:
    assert run(p=1).time == 0


def test_neighbours_without_switches_cannot() -> None:
    with pytest.raises(ConfigError, match="choose switch, fat-tree or hierarchy"):
        run(on="torus")
    with pytest.raises(ConfigError, match="they can: allreduce"):
        run("alltoall")
