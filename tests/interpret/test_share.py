"""Programs for shared memory: right in every interleaving, in place and apart, staged and direct."""

from __future__ import annotations

import random

import numpy as np
import pytest
from tests.interpret.shared_machine import Machine, Rank

from unisono.interpret.lower import Area
from unisono.interpret.share import Kind, When, share, share_all
from unisono.schedule.catalog import algorithms, find
from unisono.schedule.conditions import Place
from unisono.schedule.schedule import Schedule

CATALOGUE = [a for a in algorithms() if a.name != "dedicated_servers"]


def run_at_random(schedule: Schedule, seed: int) -> None:
    chance = random.Random(seed)
    p, blocks, collective = schedule.p, schedule.blocks, schedule.collective
    windows, turns = chance.choice((1, 1, 2, 3, 5)), chance.choice((1, 2, 3))
    may_be_in_place = collective.blocks is None
    programs = share_all(schedule)
    place = Place(p, np.arange(p).reshape(-1, 1), np.arange(blocks), schedule.root, schedule.workers)
    low, high = (np.broadcast_to(x, (p, blocks)) for x in collective.after(place))
    before = np.broadcast_to(np.asarray(collective.before(place)), (p, blocks))
    values = np.array([[chance.randrange(10**6) for _ in range(p * blocks)] for _ in range(windows)])
    values = values.reshape(windows, p, blocks)
    ranks = []
    for r in range(p):
        in_place = may_be_in_place and chance.random() < 0.5 and bool((low[r] < high[r]).all())
        rank = Rank(programs[r], in_place, chance.random() < 0.5, chance.random() < 0.5, windows, turns)
        for w in range(windows):
            for b in np.flatnonzero(before[r]).tolist():
                rank.memory[int(Area.OUT if in_place else Area.IN), w, b] = int(values[w, r, b])
        ranks.append(rank)
    reduce = max if collective.idempotent else sum
    Machine(ranks, seed, reduce).run()
    for r, rank in enumerate(ranks):
        for w in range(windows):
            for b in np.flatnonzero(low[r] < high[r]).tolist():
                right = reduce(values[w, low[r, b] : high[r, b], b].tolist())
                assert rank.memory[int(Area.OUT), w, b] == right, (schedule.name, p, r, b, w)


@pytest.mark.parametrize("algorithm", CATALOGUE, ids=lambda a: f"{a.collective.name}-{a.name}")
def test_any_interleaving_gives_the_right_result(algorithm) -> None:
    for p in (1, 2, 3, 4, 5, 6, 8):
        for seed in range(6):
            root = seed % p if algorithm.collective.rooted else 0
            run_at_random(algorithm.schedule(p, root), seed)


def kinds(name: str, p: int, rank: int = 0) -> list[Kind]:
    program = share(find("allreduce", name).schedule(p), rank)
    rows = program.rows.tolist()
    ends = [row for row in rows if (row[0], row[3]) == (Kind.WAIT, When.REUSED)]
    ends += [row for row in rows if (row[0], row[2]) == (Kind.SIGNAL, When.REUSED)]
    return [Kind(row[0]) for row in rows if row not in ends and row[0] not in (Kind.PUBLISH, Kind.FETCH)]


def test_a_direct_allreduce_combines_once_and_synchronises_twice() -> None:
    wait, signal, combine = Kind.WAIT, Kind.SIGNAL, Kind.COMBINE
    assert kinds("direct", 4) == [signal, *3 * [wait], combine, signal, *3 * [wait]]


def test_what_is_summed_of_all_ranks_at_once_is_known() -> None:
    for p in (2, 3, 4):
        assert share(find("allreduce", "direct").schedule(p), 0).sums_at_once
        assert share(find("reduce_scatter", "direct").schedule(p), 0).sums_at_once
        assert not share(find("reduce", "flat").schedule(p), 0).sums_at_once, "only the root divides"
    assert not share(find("allreduce", "ring").schedule(3), 0).sums_at_once


def test_an_exchange_synchronises_once() -> None:
    wait, signal, combine = Kind.WAIT, Kind.SIGNAL, Kind.COMBINE
    assert kinds("exchange", 4) == [combine, signal, *3 * [wait], combine]


def test_a_root_whose_vector_is_staged_waits_for_nobody_who_reads_it() -> None:
    rows = share(find("broadcast", "flat").schedule(4), 0).rows.tolist()
    assert [row[3] for row in rows if row[0] == Kind.WAIT] == 3 * [When.INPUT_LENT]


def test_what_its_maker_has_passed_on_is_kept_only_if_somebody_reads_it() -> None:
    for p in (2, 3, 4):
        assert share(find("reduce", "direct").schedule(p), 1).slots == [0] * p, "the sum goes to the root"
    assert share(find("allreduce", "exchange").schedule(3), 0).slots == [1, 1, 1], "the others read it"
