"""verify names every kind of mistake, with its rank, round and block; the executor confirms that it is one."""

from dataclasses import replace

import pytest
from tests.interpret.executor import harm
from tests.interpret.handmade import handmade

from unisono.errors import ScheduleError
from unisono.interpret.verify import check, verify
from unisono.schedule.ir import ALL, DATA, INPUT, REDUCE_AFTER, REDUCE_BEFORE, TEMP, Do, Get, Put, Span
from unisono.schedule.schedule import Table

WHOLE_INPUT, SCRATCH = Span(0, 1, INPUT), Span(0, 1, TEMP)


def reported(table: Table) -> list[tuple[str, int, int, int]]:
    """What verify finds: kind, round, rank, block."""
    return [(problem.kind, problem.round, problem.rank, problem.block) for problem in verify(table).problems]


def assert_only(table: Table, *problems: tuple[str, int, int, int]) -> None:
    """verify reports exactly these, and the schedule does indeed go wrong."""
    assert reported(table) == list(problems)
    assert harm(table, seed=1, runs=40)


def assert_right(table: Table) -> None:
    """verify has no objection, and no interleaving goes wrong."""
    assert reported(table) == []
    assert harm(table, seed=1, runs=40) is None


def test_a_lost_contribution_is_reported_where_the_block_was_last_written():
    table = handmade("reduce", {1: Put(0, ALL), 0: Get(1, ALL, REDUCE_AFTER)}, p=3)
    assert_only(table, ("lost", 0, 0, 0))
    assert "lacks the contribution of rank 2" in str(verify(table).problems[0])


def test_a_block_that_never_arrives_is_lost_before_the_first_round():
    table = handmade("broadcast", {0: Put(1, Span(0, 2)), 1: Get(0, Span(0, 2))}, p=3, blocks=2)
    assert_only(table, ("lost", -1, 2, 0), ("lost", -1, 2, 1))


def test_a_contribution_that_is_added_twice_is_reported_where_that_happens():
    again = {1: Put(0, ALL), 0: Get(1, ALL, REDUCE_AFTER)}
    table = handmade("reduce", again, again, p=2)
    assert_only(table, ("doubled", 1, 0, 0))
    assert "rank 1 counted twice" in str(verify(table).problems[0])


def test_a_block_in_the_place_of_another_is_misplaced():
    table = handmade("scatter", {0: Put(1, Span(0)), 1: Get(0, Span(1))}, p=2, blocks=2)
    assert_only(table, ("misplaced", 0, 1, 1))


def test_a_contribution_that_is_not_asked_for_is_misplaced():
    swap = {0: (Put(1, WHOLE_INPUT), Get(1, ALL, REDUCE_AFTER)), 1: (Put(0, WHOLE_INPUT), Get(0, ALL, REDUCE_BEFORE))}
    table = handmade("scan", swap, p=2)
    assert_only(table, ("misplaced", 0, 0, 0))
    assert "has the contribution of rank 1, which is not asked for" in str(verify(table).problems[0])


def test_a_message_that_is_cut_in_another_order_shifts_what_lies_between():
    sent, awaited = (0, 1, 2), (2, 1, 0)  # block 1 has its turn in both, but does not start at the same byte
    table = handmade(
        "broadcast",
        {0: tuple(Put(1, Span(b)) for b in sent), 1: tuple(Get(0, Span(b)) for b in awaited)},
        p=2,
        blocks=3,
    )
    assert sorted(reported(table)) == [("misplaced", 0, 1, block) for block in (0, 1, 2)]
    only_block_1_matters = handmade(
        "broadcast",
        {0: tuple(Put(1, Span(b)) for b in sent), 1: tuple(Get(0, Span(b)) for b in awaited)},
        {0: (Put(1, Span(0)), Put(1, Span(2))), 1: (Get(0, Span(0)), Get(0, Span(2)))},
        p=2,
        blocks=3,
    )
    assert_only(only_block_1_matters, ("misplaced", 0, 1, 1))


def test_a_block_that_is_passed_on_before_it_is_held_is_unfilled():
    early = {1: Put(2, ALL), 2: Get(1, ALL)}
    table = handmade("broadcast", early, {0: Put(1, ALL), 1: Get(0, ALL)}, p=3)
    assert_only(table, ("unfilled", 0, 2, 0))


def test_a_sum_into_memory_that_nobody_filled_is_unfilled():
    into_scratch = {1: Put(0, ALL), 0: Get(1, SCRATCH, REDUCE_AFTER)}
    table = handmade("reduce", into_scratch, {0: Do(ALL, TEMP)}, p=2)
    assert_only(table, ("unfilled", 0, 0, 0))


def test_a_put_without_a_get_is_unmatched_at_the_sender():
    table = handmade("barrier", {}, {2: Put(0, ALL)}, p=3)
    assert ("unmatched", 1, 2, 0) in reported(table)
    assert harm(table, seed=1).startswith("stuck")


def test_a_get_without_a_put_is_unmatched_at_the_receiver():
    table = handmade("scatter", {0: Put(1, Span(1)), 1: Get(0, Span(1))}, {1: Get(0, Span(1))}, p=2, blocks=2)
    assert_only(table, ("unmatched", 1, 1, 1))


def test_a_put_that_is_longer_than_its_get_is_unmatched():
    table = handmade("scatter", {0: Put(1, Span(0, 2)), 1: Get(0, Span(1))}, p=2, blocks=2)
    assert ("unmatched", 0, 0, 0) in reported(table)
    assert harm(table, seed=1).startswith("length")


def test_to_send_and_overwrite_a_block_in_one_round_is_a_race_where_it_arrives():
    table = handmade("allreduce", {0: (Put(1, ALL), Get(1, ALL, REDUCE_AFTER)), 1: (Put(0, ALL), Get(0, ALL, 1))}, p=2)
    assert_only(table, ("race", 0, 0, 0), ("race", 0, 1, 0))


def test_a_race_that_reaches_a_block_which_is_itself_sent_leads_to_another():
    told = {0: Put(1, ALL), 1: Get(0, ALL)}
    racing = {
        3: Put(0, ALL),
        0: (Get(3, ALL), Put(1, ALL)),  # may send what it is about to lose
        1: (Get(0, ALL), Put(2, ALL)),  # holds the same already, unless that race is lost
        2: Get(1, ALL),
    }
    mended = {0: Do(ALL, INPUT)}, {0: (Put(1, ALL), Put(3, ALL)), 1: Get(0, ALL), 3: Get(0, ALL)}
    assert_only(handmade("broadcast", told, racing, *mended, p=4), ("race", 1, 2, 0))


def test_a_block_that_is_rewritten_in_two_steps_is_not_safe_to_send_though_it_ends_as_it_was():
    rewrite = (Get(1, ALL), Get(2, ALL, REDUCE_AFTER))
    fill = {1: Put(0, ALL), 2: Put(0, ALL), 0: rewrite}
    send = {0: (*rewrite, Put(3, ALL)), 3: Get(0, ALL, REDUCE_BEFORE)}
    last = {0: Put(3, WHOLE_INPUT), 3: Get(0, ALL, REDUCE_BEFORE)}
    assert_only(handmade("reduce", fill, fill | send, last, p=4, root=3), ("race", 1, 3, 0))
    assert_right(handmade("reduce", fill, {0: Put(3, ALL)} | {3: send[3]}, last, p=4, root=3))


def test_two_copies_into_a_block_in_one_round_are_a_race():
    table = handmade("reduce", {0: Put(2, ALL), 1: Put(2, ALL), 2: (Get(0, ALL), Get(1, ALL))}, p=3, root=2)
    assert_only(table, ("race", 0, 2, 0))


@pytest.mark.parametrize(
    ("operation", "kind", "text"),
    [
        (Get(0, WHOLE_INPUT), "malformed get", "the input is read-only"),
        (Do(WHOLE_INPUT, DATA), "malformed move", "the input is read-only"),
        (Put(2, ALL), "malformed put", "the peer does not exist"),
        (Get(-2, ALL), "malformed get", "the peer does not exist"),
        (Put(1, ALL), "malformed put", "a rank talks to itself"),
        (Put(0, Span(0, 3)), "malformed put", "a span has 1 to 2 blocks"),
        (Put(0, Span(0, 0)), "malformed put", "a span has 1 to 2 blocks"),
    ],
)
def test_an_operation_that_makes_no_sense_is_malformed(operation, kind, text):
    table = handmade("broadcast", {0: Put(1, ALL), 1: Get(0, ALL)}, {1: operation}, p=2, blocks=2)
    (problem,) = verify(table).problems
    assert (problem.kind, problem.round, problem.rank, problem.block, problem.text) == (kind, 1, 1, 0, text)


def test_a_round_that_does_not_exist_is_malformed():
    table = handmade("broadcast", {0: Put(1, ALL), 1: Get(0, ALL)}, p=2)
    problems = reported(replace(table, rounds=0))
    assert problems == [("malformed put", 0, 0, 0), ("malformed get", 0, 1, 0)]


def test_check_says_in_one_line_which_schedule_is_wrong_and_why():
    table = handmade("broadcast", {0: Put(1, Span(0, 2)), 1: Get(0, Span(0, 2))}, p=3, blocks=2)
    with pytest.raises(ScheduleError) as caught:
        check(table)
    assert str(caught.value) == (
        "broadcast 'handmade' on 3 ranks: never written, rank 2, block 0: lost: "
        "lacks the contribution of rank 0 in the end (and 1 more)"
    )
