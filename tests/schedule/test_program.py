"""One rank's program is the same data as that rank's rows in the table of all ranks."""

from random import Random

import pytest

from unisono.schedule.algorithm import Algorithm
from unisono.schedule.catalog import algorithms, find
from unisono.schedule.ir import COPY, Do, Get, Operation, Put, Span, fields
from unisono.schedule.schedule import Schedule, Table

Program = list[dict[type, list[Operation]]]


def rows_of_all_ranks(table: Table) -> list[Program]:
    """The table's rows, by rank, round and kind of operation."""
    programs = [[{Put: [], Get: [], Do: []} for _ in range(table.rounds)] for _ in range(table.p)]
    for t, rank, to, space, first, count, _ in zip(*table.puts, strict=True):
        programs[rank][t][Put].append(Put(to, Span(first, count, space)))
    for t, rank, source, space, first, count, how in zip(*table.gets, strict=True):
        programs[rank][t][Get].append(Get(source, Span(first, count, space), how))
    for t, rank, space, first, count, source, how in zip(*table.moves, strict=True):
        programs[rank][t][Do].append(Do(Span(first, count, space), source, how))
    return programs


def program_of(schedule: Schedule, rank: int) -> Program:
    """The program, its operations sorted by kind."""
    return [
        {kind: [operation for operation in round_ if isinstance(operation, kind)] for kind in (Put, Get, Do)}
        for round_ in schedule.program(rank)
    ]


def schedules(algorithm: Algorithm) -> list[Schedule]:
    """For all numbers of ranks up to 9 and two above, each with another root."""
    rng = Random(algorithm.name)
    return [algorithm.schedule(p, root=rng.randrange(p)) for p in (*range(1, 10), 13, 16)]


@pytest.mark.parametrize("algorithm", algorithms(), ids=lambda x: f"{x.collective.name}-{x.name}")
def test_a_program_has_the_rows_of_its_rank_and_no_others(algorithm):
    for schedule in schedules(algorithm):
        for rank, rows in enumerate(rows_of_all_ranks(schedule.table)):
            assert program_of(schedule, rank) == rows, f"rank {rank} of {schedule.p}"


@pytest.mark.parametrize("algorithm", algorithms(), ids=lambda x: f"{x.collective.name}-{x.name}")
def test_a_program_is_made_of_plain_whole_numbers(algorithm):
    numbers = {
        number
        for schedule in schedules(algorithm)
        for round_ in schedule.program(schedule.p // 2)
        for operation in round_
        for number in fields(operation)
    }
    assert all(isinstance(number, int) for number in numbers)


def test_a_program_reads_like_the_textbook():
    (first, second) = find("allgather", "ring").schedule(3).program(1)
    assert first == (Put(2, Span(1)), Get(0, Span(0), COPY))
    assert second == (Put(2, Span(0)), Get(0, Span(2), COPY))


def test_unequal_hosts_give_the_same_program_and_rows():
    schedule = find("allreduce", "hierarchical").schedule(9, hosts=(4, 2, 3))
    for rank, rows in enumerate(rows_of_all_ranks(schedule.table)):
        assert program_of(schedule, rank) == rows
