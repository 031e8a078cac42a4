"""Price against a slow reading of the same rules, and against what users must be able to rely on."""

from math import isclose

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unisono.errors import ScheduleError
from unisono.interpret.explain import best_price, explain
from unisono.interpret.machine import Link, Machine
from unisono.interpret.price import price
from unisono.interpret.register import check_alike
from unisono.schedule.catalog import algorithms, find
from unisono.schedule.conditions import COLLECTIVES
from unisono.schedule.ir import COPY, Do, Get, Put
from unisono.schedule.layout import EqualBlocks, Layout, UnequalBlocks
from unisono.schedule.schedule import Schedule

MACHINE = Machine(Link(alpha=3e-6, beta=2e-9), gamma=5e-10)
CATALOGUE = [pytest.param(algorithm, id=f"{algorithm.collective.name}-{algorithm.name}") for algorithm in algorithms()]


def slow_price(schedule: Schedule, layout: Layout, machine: Machine) -> tuple[float, int, list[int]]:
    """Time, rounds and bytes sent per rank, from every rank's program, one operation at a time."""
    sizes = np.diff([layout.start(b) for b in range(layout.blocks + 1)])
    programs = [schedule.program(rank) for rank in range(schedule.p)]
    sent = [0] * schedule.p
    time, busy_rounds = 0.0, 0
    for round_ in zip(*programs, strict=True):
        costs = []
        for rank, operations in enumerate(round_):
            out = into = reduced = 0
            for operation in operations:
                first, count, _ = operation.span
                nbytes = int(sum(sizes[(first + i) % layout.blocks] for i in range(count)))
                out += nbytes * isinstance(operation, Put)
                into += nbytes * isinstance(operation, Get)
                reduced += nbytes * (not isinstance(operation, Put) and operation.how != COPY)
            talks = any(not isinstance(operation, Do) for operation in operations)
            costs.append(
                (talks, talks * machine.link.alpha + max(out, into) * machine.link.beta + reduced * machine.gamma)
            )
            sent[rank] += out
        time += max(cost for _, cost in costs)
        busy_rounds += any(talks for talks, _ in costs)
    return time, busy_rounds, sent


@pytest.mark.soak
@given(st.data())
def test_price_equals_a_slow_count_of_every_operation(data: st.DataObject) -> None:
    algorithm = data.draw(st.sampled_from(algorithms()))
    p = data.draw(st.integers(1, 14))
    schedule = algorithm.schedule(p, data.draw(st.integers(0, p - 1)))
    nbytes = data.draw(st.integers(0, 5000))
    layout = schedule.layout(nbytes)
    if data.draw(st.booleans(), label="blocks of any sizes"):
        sizes = data.draw(st.lists(st.integers(0, 99), min_size=schedule.blocks, max_size=schedule.blocks))
        layout = UnequalBlocks.of(sizes)
    fast = price(schedule, nbytes, MACHINE, layout)
    time, rounds, sent = slow_price(schedule, layout, MACHINE)
    assert isclose(fast.time, time, rel_tol=1e-12, abs_tol=1e-30)
    assert fast.rounds == rounds
    assert fast.sent.tolist() == sent


@pytest.mark.parametrize("algorithm", CATALOGUE)
def test_ranks_that_are_declared_alike_cost_the_same_one_by_one(algorithm) -> None:
    for p in range(1, 65):
        check_alike(algorithm.schedule(p, root=p // 3))


@pytest.mark.parametrize("algorithm", CATALOGUE)
def test_what_is_sent_is_received_and_no_algorithm_beats_the_byte_bound(algorithm) -> None:
    for p in (1, 2, 3, 7, 8, 13):
        schedule = algorithm.schedule(p)
        candidate = price(schedule, schedule.blocks * 64, MACHINE)
        assert candidate.sent.sum() == candidate.received.sum()
        if schedule.workers == p:
            assert candidate.wire >= candidate.bound.bytes * (1 - 1e-12)
            assert candidate.arithmetic >= candidate.bound.reduced * (1 - 1e-12)
        assert candidate.time <= candidate.rounds * 3e-6 + candidate.wire * 2e-9 + candidate.arithmetic * 5e-10 + 1e-15


def test_unequal_blocks_make_the_largest_block_set_the_pace_of_a_ring() -> None:
    schedule = find("allgather", "ring").schedule(4)
    cost = price(schedule, 100, Machine(Link(0.0, 1.0), 0.0), UnequalBlocks.of([70, 10, 10, 10]))
    assert cost.time == 3 * 70
    assert cost.sent.tolist() == [90, 90, 90, 30]


def test_weak_ranks_with_small_shares_reduce_less() -> None:
    shares = (4, 4, 4, 1)
    cost = price(find("allreduce", "weighted").schedule(4, shares=shares, segments=1), 13_000, MACHINE)
    assert cost.reduced.tolist() == [12_000, 12_000, 12_000, 3_000]
    assert cost.sent[3] < cost.sent[0]


def test_a_rank_with_no_share_sends_its_vector_once_and_reduces_nothing() -> None:
    cost = price(find("allreduce", "weighted").schedule(3, shares=(1, 1, 0), segments=4), 8_000, MACHINE)
    assert (cost.sent[2], cost.received[2], cost.reduced[2]) == (8_000, 8_000, 0)


def test_links_inside_a_host_cost_what_they_cost() -> None:
    machine = Machine(Link(10.0, 1.0), 0.0, local=Link(1.0, 0.1), hosts=(2, 2))
    schedule = find("broadcast", "flat").schedule(4)
    assert price(schedule, 100, machine).time == pytest.approx(10 + 100 * (0.1 + 1 + 1))


def test_pipelines_get_the_best_number_of_segments() -> None:
    algorithm = find("broadcast", "pipelined_chain")
    best = best_price(algorithm, 16, 1 << 26, MACHINE)
    others = [
        price(algorithm.schedule(16, segments=k), 1 << 26, MACHINE).time for k in (1, 8, 50, 200, 500, 2000, 9999)
    ]
    assert best.time <= min(others)


def test_explain_lists_every_algorithm_best_first_and_partial_ones_last() -> None:
    for collective in COLLECTIVES:
        prices = explain(collective, 8, 1 << 20, MACHINE)
        assert {x.schedule.name for x in prices} == {x.name for x in algorithms(collective)}
        full = [x.time for x in prices if x.schedule.workers == 8]
        assert full == sorted(full)
        assert all(x.schedule.workers == 8 for x in prices[: len(full)])


def test_small_vectors_choose_few_rounds_and_long_ones_few_bytes() -> None:
    def order(nbytes: int) -> list[str]:
        wanted = ("mst", "ring", "recursive_doubling", "halving_doubling")
        return [x.schedule.name for x in explain("allreduce", 16, nbytes, MACHINE) if x.schedule.name in wanted]

    assert order(8) == ["recursive_doubling", "mst", "halving_doubling", "ring"] or order(8)[0] == "recursive_doubling"
    assert order(1 << 28)[0] == "halving_doubling"
    assert order(1 << 28)[-1] == "mst"


def test_a_million_ranks_are_priced_without_looking_at_each() -> None:
    p = 1 << 20
    for name in ("ring", "direct", "recursive_doubling", "circulant", "mesh_3d", "double_binary_tree"):
        cost = price(find("allreduce", name).schedule(p), p * 64, MACHINE)
        assert cost.sent.shape == (p,)
    ring = price(find("allreduce", "ring").schedule(p), p * 64, MACHINE)
    assert ring.rounds == 2 * (p - 1)
    assert ring.time == pytest.approx(2 * (p - 1) * (3e-6 + 64 * 2e-9) + (p - 1) * 64 * 5e-10, rel=1e-12)


def test_a_layout_with_another_number_of_blocks_is_refused() -> None:
    with pytest.raises(ScheduleError, match="4 blocks here, the layout 3"):
        price(find("allgather", "ring").schedule(4), 12, MACHINE, UnequalBlocks.of([1, 2, 3]))


def test_bytes_that_are_no_whole_elements_are_refused() -> None:
    with pytest.raises(ScheduleError, match="10 bytes are not a whole number of elements of 4 bytes"):
        EqualBlocks(10, 3, element=4)
