"""Lowering orders what conflicts, and nothing else."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import pytest

from unisono.interpret.lower import Area, Kind, Program, lower
from unisono.schedule.catalog import algorithms, find
from unisono.schedule.ir import ALL, EVERY_BLOCK, INPUT, REDUCE_AFTER, Get, Operation, Put, Span
from unisono.schedule.pattern import Pattern

CATALOGUE = [pytest.param(a, id=f"{a.collective.name}-{a.name}") for a in algorithms()]
KIND, PEER, HOW, MESSAGE, BLOCK, TARGET, SOURCE, OPERAND = 0, 1, 2, 3, 4, slice(5, 7), slice(7, 9), slice(9, 11)


def reads(program: Program, row: int) -> set[tuple[int, ...]]:
    """The homes that an instruction reads."""
    kind, first, count = program.instructions[row, [KIND, -2, -1]].tolist()
    operands = program.operands[first : first + count] if kind == Kind.FOLD else [program.instructions[row, OPERAND]]
    return {tuple(program.instructions[row, SOURCE]), *map(tuple, operands)}


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("algorithm", CATALOGUE)
def test_conflicting_instructions_are_ordered(algorithm, in_place: bool) -> None:
    for p in (1, 2, 3, 5, 8):
        program = lower(algorithm.schedule(p, p // 2), p - 1, in_place=in_place)
        rows, count = program.instructions, len(program.instructions)
        waits = [
            set(program.waits_for[program.waits_from[i] : program.waits_from[i + 1]].tolist()) for i in range(count)
        ]
        before = [set[int]() for _ in range(count)]
        for i in range(count):
            before[i] = waits[i].union(*(before[w] for w in waits[i]))
        for i in range(count):
            for j in range(i):
                writes_i, writes_j = tuple(rows[i, TARGET]), tuple(rows[j, TARGET])
                reads_i, reads_j = reads(program, i), reads(program, j)
                clash = (writes_i in reads_j | {writes_j} and writes_i[0] >= 0) or (
                    writes_j in reads_i and writes_j[0] >= 0
                )
                assert not clash or j in before[i], (p, i, j)


def test_a_ring_waits_for_what_it_passes_on_and_for_nothing_else() -> None:
    program = lower(find("allgather", "ring").schedule(4), 1, in_place=False)
    kinds = program.instructions[:, KIND].tolist()
    assert kinds == [Kind.SEND, Kind.RECEIVE] * 3 + [Kind.LOCAL]
    waits = [program.waits_for[a:b].tolist() for a, b in zip(program.waits_from, program.waits_from[1:], strict=False)]
    assert waits == [[], [], [1], [], [3], [], []]


def test_in_place_nothing_is_copied_and_out_of_place_the_input_is_only_read() -> None:
    schedule = find("allreduce", "ring").schedule(4)
    for in_place in (False, True):
        program = lower(schedule, 2, in_place=in_place)
        assert Kind.LOCAL not in program.instructions[:, KIND]
        assert (program.instructions[:, TARGET][:, 0] != Area.IN).all()
        assert (Area.IN in program.instructions[:, OPERAND][:, 0]) != in_place


def exchanged_twice(p: int, r: int) -> Iterator[tuple[Operation, ...]]:
    """Everything is sent to the next rank, and then once more, when it has been overwritten."""
    for _ in range(2):
        yield Put((r + 1) % p, Span(0, EVERY_BLOCK, INPUT)), Get((r - 1) % p, ALL, REDUCE_AFTER)


def lowered_by_hand(generate: Callable[..., Iterator[Any]], blocks: int) -> Program:
    algorithm = replace(find("allreduce", "exchange"), pattern=Pattern(generate, "by_hand"), blocks=lambda p: blocks)
    return lower(algorithm.schedule(3), 0, in_place=True)


def test_an_input_that_is_sent_after_it_was_overwritten_is_kept_in_a_slot() -> None:
    kept = lowered_by_hand(exchanged_twice, 1)
    assert len(kept.slots) == 1
    assert kept.instructions[0].tolist()[:1] == [Kind.LOCAL]
    kept = lowered_by_hand(lambda p, r: islice(exchanged_twice(p, r), 1), 2)
    assert len(kept.slots) == 2, "messages of several blocks could wait for each other in a circle"


def test_an_input_that_is_sent_while_it_is_overwritten_is_sent_from_where_it_lies() -> None:
    schedule = find("allreduce", "exchange").schedule(3)
    arriving = 2  # slots for what is reduced at once
    assert len(lower(schedule, 0, in_place=False).slots) == arriving
    in_place = lower(schedule, 0, in_place=True)
    assert len(in_place.slots) == arriving
    kinds = in_place.instructions[:, KIND].tolist()
    assert kinds == [Kind.SEND] * 2 + [Kind.RECEIVE] * 2 + [Kind.FOLD]
    fold_waits = in_place.waits_for[in_place.waits_from[4] : in_place.waits_from[5]]
    assert fold_waits.tolist() == [0, 1, 2, 3], "for the sends, too"


def test_blocks_that_are_passed_through_lie_in_slots() -> None:
    program = lower(find("gather", "mst").schedule(8), 4, in_place=False)
    assert sorted(program.blocks[program.slots].tolist()) == [5, 6, 7]


def test_what_arrives_for_others_in_a_reduce_never_touches_the_callers_memory() -> None:
    program = lower(find("reduce", "mst").schedule(8, root=0), 4, in_place=True)
    assert Area.OUT not in program.instructions[:, TARGET][:, 0]


def test_puts_and_gets_of_a_pair_and_round_are_one_message() -> None:
    program = lower(find("allgather", "mst").schedule(4), 0, in_place=False)
    receives = program.instructions[program.instructions[:, KIND] == Kind.RECEIVE]
    of_one_message = receives[receives[:, MESSAGE] == receives[0, MESSAGE]]
    assert np.unique(of_one_message[:, PEER]).size == 1
    assert of_one_message[:, BLOCK].size >= 1


def test_what_arrives_in_one_round_is_reduced_at_once_in_rank_order() -> None:
    program = lower(find("allreduce", "exchange").schedule(4), 2, in_place=False)
    fold = program.instructions[program.instructions[:, KIND] == Kind.FOLD]
    assert len(fold) == 1
    first, count = fold[0, OPERAND].tolist()
    operands = program.operands[first : first + count].tolist()
    received = {tuple(row[TARGET]): row[PEER] for row in program.instructions.tolist() if row[KIND] == Kind.RECEIVE}
    assert [received.get(tuple(operand), 2) for operand in operands] == [0, 1, 2, 3]
