"""Asynchronous flows: never slower than lockstep, equal to it where all ranks do the same, and right by hand."""

from math import isclose
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unisono.errors import ConfigError
from unisono.interpret.machine import Link, Machine
from unisono.interpret.price import price
from unisono.schedule.algorithm import Algorithm
from unisono.schedule.arithmetic import only
from unisono.schedule.catalog import algorithms, find
from unisono.schedule.conditions import COLLECTIVES
from unisono.schedule.ir import ALL, Get, Number, Put, Rounds, Span
from unisono.schedule.pattern import pattern
from unisono.simulate import Setting, simulate, simulate_in_network, topology

ALPHA, BETA, GAMMA = 3e-6, 2e-9, 5e-10
MACHINE = Machine(Link(ALPHA, BETA), GAMMA)
N = 24_000
KINDS = ("switch", "ring", "torus", "mesh", "fat-tree", "hierarchy")


@pytest.mark.soak
@given(st.data())
def test_flows_are_never_slower_than_lockstep(data: st.DataObject) -> None:
    algorithm = data.draw(st.sampled_from(algorithms()))
    p = data.draw(st.integers(1, 16))
    schedule = algorithm.schedule(p, data.draw(st.integers(0, p - 1)))
    joined = topology(data.draw(st.sampled_from(KINDS)), p)
    for link in data.draw(st.lists(st.integers(0, max(0, joined.links - 1)), max_size=3)):
        if joined.links:
            joined = joined.with_slow_link(joined.link_name(link), data.draw(st.sampled_from([0.5, 3, 10])))
    stragglers = data.draw(st.dictionaries(st.integers(0, p - 1), st.sampled_from([0.5, 1.5, 4.0]), max_size=3))
    machine = Machine(Link(data.draw(st.sampled_from([0, ALPHA])), BETA), data.draw(st.sampled_from([0, GAMMA, 4e-9])))
    if data.draw(st.booleans()):
        hosts = (p,) if p % 2 else (p // 2, p // 2)
        machine = Machine(machine.link, machine.gamma, local=Link(1e-7, 1e-10), hosts=hosts)
    options = {"stragglers": stragglers, "hop": data.draw(st.sampled_from([0, 1e-6]))}
    nbytes = data.draw(st.integers(0, 100_000))
    flows = simulate(schedule, nbytes, machine, joined, **options)
    lockstep = simulate(schedule, nbytes, machine, joined, mode="lockstep", **options)
    assert flows.time <= lockstep.time * (1 + 1e-9)
    assert isclose(sum(flows.terms), flows.time, rel_tol=1e-9, abs_tol=1e-15)
    assert np.allclose(flows.loads.links, lockstep.loads.links)


@pytest.mark.parametrize("name", ["ring", "recursive_doubling", "halving_doubling", "circulant", "direct", "mesh_2d"])
def test_ranks_that_do_the_same_take_as_long_as_price_says(name: str) -> None:
    for p in (4, 8, 16, 512):
        schedule = find("allreduce", name).schedule(p)
        found = simulate(schedule, 1 << 20, MACHINE)
        assert isclose(found.time, price(schedule, 1 << 20, MACHINE).time, rel_tol=1e-9)


@pytest.mark.parametrize("on", KINDS)
def test_what_is_recorded_takes_as_long_as_what_is_not(on: str) -> None:
    """Recording follows every event; otherwise rounds that are alike are multiplied, or not simulated at all."""
    for name in ("ring", "recursive_doubling", "double_binary_tree", "hierarchical"):
        schedule = find("allreduce", name).schedule(16)
        for stragglers in ({}, {3: 2.5}):
            watched = simulate(schedule, N, MACHINE, on, stragglers=stragglers, record=True)
            assert isclose(watched.time, simulate(schedule, N, MACHINE, on, stragglers=stragglers).time, rel_tol=1e-9)
            assert watched.flights is not None
            assert len(watched.flights.round) == watched.messages
            assert isclose(watched.flights.ended.max(), watched.time, rel_tol=1e-9)
            assert watched.flights.nbytes.sum() == pytest.approx(watched.loads.out.sum())


@pytest.mark.parametrize(("cells", "p"), [(20, 9), (1 << 20, 300)])
def test_a_ring_with_a_straggler_goes_at_its_pace(cells: int, p: int) -> None:
    """Every block has to pass the slow rank: p-1 rounds at its pace, each way; the rest overlaps."""
    schedule = find("allgather", "ring").schedule(p)
    nbytes = 1000 * p
    slow_round = 4 * (ALPHA + 1000 * BETA)
    found = simulate(schedule, nbytes, MACHINE, stragglers={p // 2: 4.0})
    assert isclose(found.time, (p - 1) * slow_round, rel_tol=1e-9)


def test_a_rank_that_waits_for_nobody_goes_on() -> None:
    """Broadcast by a chain: the second rank's last segment ends while others still wait for theirs."""
    schedule = find("broadcast", "pipelined_chain").schedule(4, segments=3)
    found = simulate(schedule, 3000, MACHINE)
    round_ = ALPHA + 1000 * BETA
    assert np.allclose(found.ended, [3 * round_, 4 * round_, 5 * round_, 5 * round_])


def test_two_messages_share_a_link_until_one_has_ended() -> None:
    """Ranks 0 and 1 of a host send 1 and 3 units to another host. In proportion, both end after 4 units' time; alike,
    the first after 2, the second after 4."""
    found = run(two_senders, 4, "hierarchy:2x2")
    unit = N / 4 * BETA
    assert np.allclose(found.ended, ALPHA + 4 * unit)
    alike = run(two_senders, 4, "hierarchy:2x2", fair=True)
    assert np.allclose(alike.ended, ALPHA + np.array([2, 4, 2, 4]) * unit)


def test_sharing_alike_can_be_slower_than_lockstep_and_sharing_in_proportion_is_not() -> None:
    """Ranks 0 and 1 send a large message to rank 2 and small ones elsewhere. Shared alike, the small ones hold up the
    large ones at their senders first, and then these share rank 2's port."""
    lockstep = run(crossed, 11, "switch", mode="lockstep")
    assert isclose(lockstep.time, ALPHA + 8 * N / 8 * BETA)
    assert run(crossed, 11, "switch", fair=True).time > 1.2 * lockstep.time
    assert isclose(run(crossed, 11, "switch").time, lockstep.time)


def test_older_rounds_go_first() -> None:
    """While rank 3's late message of round 1 crosses the link, rank 0's of round 2 waits."""
    found = run(late_and_early, 6, "hierarchy:2x3", stragglers={5: 3.0}, record=True)
    flights = found.flights
    assert flights is not None
    ended = dict(zip(zip(flights.round, flights.source, strict=True), flights.ended, strict=True))
    slow = 3 * ALPHA + 3 * N * BETA
    assert isclose(ended[0, 1], slow)  # nobody is in its way


def test_reducing_occupies_the_port_that_it_comes_through() -> None:
    schedule = find("reduce", "flat").schedule(3)
    found = simulate(schedule, N, MACHINE)
    assert isclose(found.time, ALPHA + 2 * N * (BETA + GAMMA))
    assert found.terms.gamma == pytest.approx(N * GAMMA)
    assert found.terms.waiting == pytest.approx(N * (BETA + GAMMA))  # for the other message


def test_in_segments_a_rank_passes_on_what_still_arrives() -> None:
    """Along 3 hops, 32 segments take (32 + 2) / 32 of the time of one message; whole ones 3 times as long."""
    schedule = find("broadcast", "pipelined_chain").schedule(4, segments=1)
    whole, passed_on = (simulate(schedule, 1 << 20, MACHINE, segment=segment).time for segment in (None, 1 << 15))
    assert isclose(whole, 3 * (ALPHA + (1 << 20) * BETA))
    assert isclose(passed_on, 3 * ALPHA + 34 / 32 * (1 << 20) * BETA)


def test_in_one_segment_nothing_changes() -> None:
    for name in ("ring", "mst", "direct"):
        schedule = find("allreduce", name).schedule(6)
        for on in ("switch", "ring"):
            assert isclose(
                simulate(schedule, N, MACHINE, on, segment=N).time,
                simulate(schedule, N, MACHINE, on).time,
                rel_tol=1e-9,
            )


def test_segments_over_shared_links_carry_the_same_bytes() -> None:
    schedule = find("allreduce", "mst").schedule(8)
    whole = simulate(schedule, 1 << 20, MACHINE, "hierarchy:2x4")
    passed_on = simulate(schedule, 1 << 20, MACHINE, "hierarchy:2x4", segment=1 << 16)
    assert passed_on.time < whole.time
    assert np.allclose(whole.loads.links, passed_on.loads.links)
    assert isclose(sum(passed_on.terms), passed_on.time, rel_tol=1e-9)


def test_where_the_time_goes_does_not_change_with_segments_that_gain_nothing() -> None:
    schedule = find("allreduce", "ring").schedule(8)
    whole, passed_on = (simulate(schedule, 64 << 20, MACHINE, segment=segment) for segment in (None, 2 << 20))
    assert isclose(passed_on.terms.beta, whole.terms.beta)
    assert isclose(passed_on.terms.gamma, whole.terms.gamma)
    assert passed_on.terms.waiting < 0.01 * passed_on.time
    assert passed_on.mean_waiting < 0.01 * passed_on.time
    assert isclose(sum(passed_on.terms), passed_on.time)


def test_a_rank_that_passes_on_what_arrives_moves_bytes_once() -> None:
    """The middle of a chain receives and sends at the same time: its busier port, and what fills the pipeline."""
    schedule = find("broadcast", "pipelined_chain").schedule(3, segments=1)
    terms = simulate(schedule, 1 << 20, MACHINE, segment=1 << 15).terms
    assert isclose(terms.beta, (1 << 20) * BETA)
    assert isclose(terms.waiting + terms.alpha, 2 * ALPHA + (1 << 15) * BETA)


@pytest.mark.parametrize("on", ["switch", "hierarchy:20x5"])
def test_the_parts_of_messages_are_recorded_as_those_of_their_ranks(on: str) -> None:
    schedule = find("broadcast", "mst").schedule(100)
    flights = simulate(schedule, 4096, MACHINE, on, segment=1024, record=True).flights
    assert flights is not None
    assert max(flights.source.max(), flights.target.max()) < 100
    assert flights.source.min() == 0
    shown = (flights.source < 64) | (flights.target < 64)
    assert shown.all()
    whole = simulate(schedule, 4096, MACHINE, on, record=True).flights
    assert whole is not None
    assert len(flights.round) == 4 * len(whole.round)
    assert isclose(flights.nbytes.sum(), whole.nbytes.sum())


def test_a_changed_link_changes_the_time_only_where_it_is_used() -> None:
    schedule = find("allgather", "ring").schedule(8)
    plain = simulate(schedule, N, MACHINE, "ring").time
    ring = topology("ring", 8)
    assert simulate(schedule, N, MACHINE, ring.with_slow_link("rank 3 -x", 9)).time == plain
    slower = simulate(schedule, N, MACHINE, ring.with_slow_link("rank 3 +x", 9))
    assert isclose(slower.time, 7 * (ALPHA + 9 * N / 8 * BETA))
    assert slower.bottleneck.name == "rank 3 +x"
    assert slower.utilisation(slower.bottleneck) == pytest.approx(7 * 9 * N / 8 * BETA / slower.time)


@pytest.mark.parametrize(
    ("nbytes", "said"),
    [(-5, "0 bytes or more, not -5; the nearest is 0"), (1.5, "a whole number from 0 up, not 1.5"), (True, "not True")],
)
def test_vectors_that_there_are_not(nbytes: Any, said: str) -> None:
    for mode in ("flows", "lockstep"):
        with pytest.raises(ConfigError, match=said):
            simulate(find("allreduce", "ring").schedule(4), nbytes, mode=mode)
    with pytest.raises(ConfigError, match=said):
        simulate_in_network("allreduce", nbytes, Setting(MACHINE, topology("switch", 4)))


def test_modes_and_ranks_that_there_are_not() -> None:
    schedule = find("allreduce", "ring").schedule(4)
    with pytest.raises(ConfigError, match="there are: flows, lockstep"):
        simulate(schedule, N, mode="slow")
    with pytest.raises(ConfigError, match="the nearest is 3"):
        simulate(schedule, N, stragglers={4: 2.0})
    with pytest.raises(ConfigError, match="straggler 1"):
        simulate(schedule, N, stragglers={1: -2.0})
    with pytest.raises(ConfigError, match="has 5 ranks, the schedule 4"):
        simulate(schedule, N, on=topology("switch", 5))
    with pytest.raises(ConfigError, match="the nearest is 1"):
        simulate(schedule, N, segment=0)
    with pytest.raises(ConfigError, match="leave the segment or the mode out"):
        simulate(schedule, N, segment=100, mode="lockstep")
    with pytest.raises(ConfigError, match="leave fair or the mode out"):
        simulate(schedule, N, fair=True, mode="lockstep")
    for hop in (-1.0, float("nan"), float("inf")):
        with pytest.raises(ConfigError, match="hop"):
            simulate(schedule, N, hop=hop)
    with pytest.raises(ConfigError, match=r"the hosts \(3, 3\) have 6 ranks, not 4"):
        simulate(schedule, N, Machine(MACHINE.link, 0.0, local=MACHINE.link, hosts=(3, 3)))


@pattern()
def two_senders(p: int, r: Number) -> Rounds:
    """0 sends one block to 2, 1 sends three to 3."""
    span = Span(0, np.where(np.asarray(r) % 2 == 0, 1, 3))
    yield Put(only(r < 2, r + 2), span), Get(only(r >= 2, r - 2), span)


@pattern()
def crossed(p: int, r: Number) -> Rounds:
    """0 and 1 send four blocks to 2, and one block each to four others."""
    operations = [
        Put(only(r < 2, 2), Span(0, 4)),
        Get(only(r == 2, 0), Span(0, 4)),
        Get(only(r == 2, 1), Span(4, 4)),
    ]
    for k in range(4):
        mine = np.where(np.asarray(r) == 0, 3 + k, 7 + k)
        operations.append(Put(only(r < 2, mine), Span(0, 1)))
        operations.append(Get(only(r == 3 + k, 0), Span(0, 1)))
        operations.append(Get(only(r == 7 + k, 1), Span(0, 1)))
    yield tuple(operations)


@pattern()
def late_and_early(p: int, r: Number) -> Rounds:
    """Round 1: 1 sends to 5, 0 to nobody. Round 2: 0 sends to 3."""
    yield Put(only(r == 1, 5), ALL), Get(only(r == 5, 1), ALL)
    yield Put(only(r == 0, 3), ALL), Get(only(r == 3, 0), ALL)


def run(handmade, p: int, on: str, **options):
    algorithm = Algorithm(COLLECTIVES["broadcast"], "handmade", handmade, lambda p: 8 if handmade is crossed else 4)
    return simulate(algorithm.schedule(p), N, Machine(MACHINE.link, 0.0), on, **options)
