"""The rounds that are simulated are those of the schedule, message by message."""

from collections import Counter

import numpy as np
import pytest

from unisono.schedule.algorithm import Algorithm
from unisono.schedule.catalog import algorithms, find
from unisono.schedule.ir import COPY
from unisono.schedule.layout import Layout
from unisono.schedule.schedule import Schedule
from unisono.simulate.rounds import batches

CATALOGUE = [pytest.param(algorithm, id=f"{algorithm.collective.name}-{algorithm.name}") for algorithm in algorithms()]


def of_table(schedule: Schedule, layout: Layout) -> list[Counter]:
    """Of every round: who gets how many bytes from whom, and reduces them."""
    table = schedule.table
    rounds: list[Counter] = [Counter() for _ in range(table.rounds)]
    for row in zip(*table.gets, strict=True):
        round_, rank, peer, _, first, count, how = map(int, row)
        rounds[round_][peer, rank, float(layout.nbytes(first, count)), how != COPY] += 1
    for row in zip(*table.moves, strict=True):
        round_, rank, _, first, count, _, how = map(int, row)
        if how != COPY:
            rounds[round_][rank, rank, float(layout.nbytes(first, count)), True] += 1
    return rounds


def of_batches(schedule: Schedule, layout: Layout) -> list[Counter]:
    rounds = []
    for batch in batches(schedule, layout):
        rows = zip(batch.source, batch.target, batch.nbytes, batch.reduces, strict=True)
        one = Counter((int(s), int(t), float(n), bool(r)) for s, t, n, r in rows)
        rounds += [one] * batch.repeat
    return rounds


@pytest.mark.parametrize("algorithm", CATALOGUE)
@pytest.mark.parametrize("p", [1, 2, 3, 5, 8, 12, 17])
def test_they_are_those_of_the_table(algorithm: Algorithm, p: int) -> None:
    schedule = algorithm.schedule(p, p // 2)
    for nbytes in (schedule.blocks * 24, 1001):
        layout = schedule.layout(nbytes)
        assert of_batches(schedule, layout) == of_table(schedule, layout)


def test_rings_of_hosts_of_unequal_sizes_end_at_different_times() -> None:
    schedule = find("allreduce", "hierarchical").schedule(9, hosts=(4, 2, 3))
    layout = schedule.layout(9000)
    assert of_batches(schedule, layout) == of_table(schedule, layout)


def test_windows_of_many_rounds_are_put_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unisono.simulate.rounds.CELLS_AT_ONCE", 40)
    for collective, name in (("alltoall", "pairwise"), ("reduce_scatter", "ring"), ("broadcast", "pipelined_chain")):
        schedule = find(collective, name).schedule(13)
        layout = schedule.layout(1003)
        assert of_batches(schedule, layout) == of_table(schedule, layout)


@pytest.mark.parametrize("nbytes", [8 * 4000, 8 * 4000 + 3, 8 * 4000 + 7777, 4001, 17])
def test_a_pipeline_comes_once_for_segments_that_are_alike(nbytes: int) -> None:
    schedule = find("allreduce", "double_binary_tree").schedule(6, segments=2000)
    layout = schedule.layout(nbytes)
    rounds = list(batches(schedule, layout))
    assert sum(batch.repeat for batch in rounds) > 2000
    assert len(rounds) < 100
    assert of_batches(schedule, layout) == of_table(schedule, layout)


def test_a_ring_of_65536_ranks_is_two_rounds() -> None:
    schedule = find("allreduce", "ring").schedule(65_536)
    rounds = list(batches(schedule, schedule.layout(1 << 30)))
    assert [(batch.messages, batch.repeat) for batch in rounds] == [(65_536, 65_535)] * 2
    assert np.array_equal((rounds[0].source + 1) % 65_536, rounds[0].target)
