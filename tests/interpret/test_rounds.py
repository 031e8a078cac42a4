"""Every instruction of a lowered program knows the round of the schedule that it comes from."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise

import pytest

from unisono.interpret import lower, share
from unisono.interpret.lower import lower as lowered
from unisono.schedule.algorithm import Algorithm
from unisono.schedule.catalog import algorithms, find
from unisono.schedule.ir import COPY
from unisono.schedule.schedule import Messages, Schedule

CATALOGUE = [pytest.param(a, id=f"{a.collective.name}-{a.name}") for a in algorithms()]
SHARED = [pytest.param(a, id=f"{a.collective.name}-{a.name}") for a in algorithms() if a.name != "dedicated_servers"]
SIZES = (1, 2, 3, 5, 8)


def transfers(schedule: Schedule, messages: Messages) -> Iterator[tuple[int, int, int, int, int]]:
    """Round, rank, peer, block and how of every block that the table's messages carry."""
    for t, rank, peer, _, first, count, how in zip(*(column.tolist() for column in messages), strict=True):
        for i in range(count):
            yield t, rank, peer, (first + i) % schedule.blocks, how


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("algorithm", CATALOGUE)
def test_what_is_sent_and_received_is_of_the_tables_round(algorithm: Algorithm, in_place: bool) -> None:
    for p in SIZES:
        schedule = algorithm.schedule(p, p // 2)
        table = schedule.table
        for rank in range(p):
            program = lowered(schedule, rank, in_place=in_place)
            assert program.rounds == table.rounds
            assert len(program.round_of) == len(program.instructions)
            for kind, messages in ((lower.Kind.SEND, table.puts), (lower.Kind.RECEIVE, table.gets)):
                done = Counter(
                    (round_, peer, int(program.blocks[block]))
                    for round_, (of, peer, _, _, block, *_) in zip(
                        program.round_of.tolist(), program.instructions.tolist(), strict=True
                    )
                    if of == kind
                )
                told = ((t, peer, block) for t, r, peer, block, _ in transfers(schedule, messages) if r == rank)
                assert done == Counter(told), (p, rank, kind)


@pytest.mark.parametrize("algorithm", CATALOGUE)
def test_rounds_never_fall_from_one_instruction_for_links_to_the_next(algorithm: Algorithm) -> None:
    for p in SIZES:
        for in_place in (False, True):
            program = lowered(algorithm.schedule(p, p // 2), p - 1, in_place=in_place)
            rounds = program.round_of.tolist()
            assert all(a <= b for a, b in pairwise(rounds))
            assert all(0 <= t <= max(program.rounds - 1, 0) for t in rounds)


def test_what_moves_and_folds_locally_is_of_the_round_in_which_it_stands() -> None:
    program = lowered(find("allreduce", "exchange").schedule(3), 0, in_place=True)
    kinds = program.instructions[:, 0].tolist()
    assert kinds[-1] == lower.Kind.FOLD
    assert program.round_of.tolist() == [0] * len(kinds)
    snapshots = lowered(find("allreduce", "recursive_doubling").schedule(4), 0, in_place=True)
    assert snapshots.instructions[:, 0].tolist() == [lower.Kind.LOCAL, lower.Kind.SEND, lower.Kind.RECEIVE] * 2
    assert snapshots.round_of.tolist() == [0] * 3 + [1] * 3
    at_the_end = lowered(find("allgather", "ring").schedule(4), 1, in_place=False)
    assert at_the_end.round_of.tolist() == [0, 0, 1, 1, 2, 2, 2]


@pytest.mark.parametrize("algorithm", SHARED)
def test_combines_are_of_rounds_in_which_the_table_moves_their_blocks(algorithm: Algorithm) -> None:
    """A rank reduces what it receives; either end copies; a fused combine is of the last round that it does."""
    for p in SIZES:
        schedule = algorithm.schedule(p, p // 2)
        table = schedule.table
        does: dict[tuple[int, int], set[int]] = defaultdict(set)
        may: dict[tuple[int, int], set[int]] = defaultdict(set)
        for t, rank, peer, block, how in transfers(schedule, table.gets):
            if how != COPY:
                does[rank, block].add(t)
            may[peer, block].add(t)  # keeps what it sends, if it is overwritten meanwhile
            may[rank, block].add(t)  # copies it, if the sender has more to do
        for t, rank, _, first, count, _, _ in zip(*(column.tolist() for column in table.moves), strict=True):
            for i in range(count):
                may[rank, (first + i) % schedule.blocks].add(t)
        found: dict[tuple[int, int], set[int]] = defaultdict(set)
        for rank, program in enumerate(share.share_all(schedule)):
            assert program.rounds == table.rounds
            for round_, (kind, block, *_) in zip(program.round_of.tolist(), program.rows.tolist(), strict=True):
                if kind == share.Kind.COMBINE:
                    found[rank, int(program.blocks[block])].add(round_)
        for cell, rounds in found.items():
            ends = {
                0,
                max(table.rounds - 1, 0),
            }  # inputs are kept before the first round, results copied after the last
            assert rounds <= does[cell] | may[cell] | ends, (p, cell)
        for cell, rounds in does.items():
            assert not rounds or max(found[cell]) >= max(rounds), (p, cell)
        for t, rank, peer, block, how in transfers(schedule, table.gets):
            if how == COPY:
                assert max(found[peer, block] | found[rank, block]) >= t, (p, rank, peer, block)


@pytest.mark.parametrize("algorithm", SHARED)
def test_signals_are_of_the_round_of_their_combine_and_waits_of_none_that_is_later(algorithm: Algorithm) -> None:
    for p in SIZES:
        for program in share.share_all(algorithm.schedule(p, p // 2)):
            rounds, kinds = program.round_of.tolist(), program.rows[:, 0].tolist()
            assert all(0 <= t <= max(program.rounds - 1, 0) for t in rounds)
            combined = 0
            for i, (t, kind) in enumerate(zip(rounds, kinds, strict=True)):
                combined = t if kind in (share.Kind.COMBINE, share.Kind.FETCH) else combined
                assert kind != share.Kind.PUBLISH or t == 0
                assert kind != share.Kind.SIGNAL or t == combined
                following = [r for r, k in zip(rounds[i:], kinds[i:], strict=True) if k == share.Kind.COMBINE]
                assert kind != share.Kind.WAIT or not following or t <= following[0]


def test_a_direct_allreduce_waits_in_its_first_round_and_combines_in_its_second() -> None:
    program = share.share(find("allreduce", "direct").schedule(2), 0)
    decoded = [
        (share.Kind(kind).name, t) for (kind, *_), t in zip(program.rows.tolist(), program.round_of, strict=True)
    ]
    assert decoded == [
        ("PUBLISH", 0),
        ("SIGNAL", 0),
        ("WAIT", 0),
        ("COMBINE", 1),  # adds, and hands out
        ("SIGNAL", 1),
        ("WAIT", 1),
        ("FETCH", 1),
        ("SIGNAL", 1),  # that it has, if the same shelf is used again for the next part of the block
        ("WAIT", 1),
    ]


def test_a_ring_combines_round_after_round() -> None:
    for rank in range(4):
        program = share.share(find("allreduce", "ring").schedule(4), rank)
        combines = [
            t for t, kind in zip(program.round_of, program.rows[:, 0], strict=True) if kind == share.Kind.COMBINE
        ]
        assert combines == [0, 1, 3, 4, 5]  # the third adds for the last time, and begins to hand out
