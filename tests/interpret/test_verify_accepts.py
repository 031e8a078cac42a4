"""verify has nothing against what is odd but right, and knows which sums are in rank order."""

from dataclasses import replace

import pytest
from tests.interpret.executor import harm
from tests.interpret.handmade import handmade

from unisono.interpret.verify import verify
from unisono.schedule.ir import ALL, COPY, DATA, INPUT, REDUCE_AFTER, REDUCE_BEFORE, TEMP, Do, Get, Put, Span
from unisono.schedule.schedule import Table

SCRATCH = Span(0, 1, TEMP)
TELL_1 = {0: Put(1, ALL), 1: Get(0, ALL)}


def assert_right(table: Table) -> None:
    """verify has no objection, and no interleaving goes wrong."""
    assert verify(table).problems == ()
    assert harm(table, seed=1, runs=40) is None


def test_one_rank_has_nothing_to_do():
    assert_right(handmade("allreduce", p=1))


def test_the_same_message_twice_does_no_harm_if_it_is_copied():
    assert_right(handmade("broadcast", TELL_1, TELL_1, p=2))


def test_noise_that_reaches_no_result_does_no_harm():
    noise = {1: (Put(2, SCRATCH), Get(2, SCRATCH)), 2: (Put(1, SCRATCH), Get(1, SCRATCH, REDUCE_AFTER))}
    tell_2 = {0: Put(2, ALL), 2: Get(0, ALL)}
    assert_right(handmade("broadcast", noise, TELL_1, tell_2, p=3))


def test_a_contribution_that_is_counted_twice_on_the_way_to_nothing_does_no_harm():
    add = {1: Put(0, ALL), 0: Get(1, ALL, REDUCE_AFTER)}
    assert_right(handmade("reduce", add, add, {0: Do(ALL, INPUT)}, add, p=2))


def test_a_block_that_is_overwritten_with_what_it_holds_may_be_sent_meanwhile():
    tell_2 = {1: Put(2, ALL), 2: Get(1, ALL)}
    again = {0: Put(1, ALL), 1: (Get(0, ALL), *[tell_2[1]]), 2: tell_2[2]}
    assert_right(handmade("broadcast", TELL_1, again, p=3))


def test_several_copies_of_the_same_into_a_block_are_no_race():
    both = {0: Put(2, ALL), 1: Put(2, ALL), 2: (Get(0, ALL), Get(1, ALL))}
    assert_right(handmade("broadcast", TELL_1, both, p=3))


def test_a_copy_may_be_followed_by_sums_in_one_round():
    first_of_all = {1: Put(0, ALL), 2: Put(0, ALL), 0: (Get(1, SCRATCH), Get(2, SCRATCH, REDUCE_AFTER))}
    assert_right(handmade("reduce", first_of_all, {0: Do(ALL, TEMP, REDUCE_AFTER)}, p=3))


def test_a_sum_that_is_followed_by_a_copy_in_one_round_is_a_race():
    both = {1: Put(0, ALL), 2: Put(0, ALL), 0: (Get(1, SCRATCH, REDUCE_AFTER), Get(2, SCRATCH))}
    table = handmade("reduce", {0: Do(SCRATCH, INPUT)}, both, {0: Do(ALL, TEMP)}, p=3)
    assert [problem.kind for problem in verify(table).problems] == ["race"]
    assert harm(table, seed=1)


def test_a_local_move_may_use_what_the_one_before_it_wrote():
    there_and_on = (Do(SCRATCH, DATA), Do(Span(0, 1, TEMP + 1), TEMP), Put(1, Span(0, 1, TEMP + 1)))
    table = handmade("broadcast", {0: there_and_on, 1: Get(0, ALL)}, p=2)
    assert_right(table)
    backwards = replace(table, moves=type(table.moves)(*(column[::-1] for column in table.moves)))
    assert [problem.kind for problem in verify(backwards).problems] == ["unfilled"]
    assert harm(backwards, seed=1)


def test_a_barrier_may_pass_on_what_it_has_just_heard():
    def hears(distance: int) -> dict:
        return {r: (Put((r + distance) % 4, ALL), Get((r - distance) % 4, ALL, REDUCE_BEFORE)) for r in range(4)}

    assert_right(handmade("barrier", hears(1), hears(2), p=4))


def test_a_barrier_may_not_forget_what_it_passes_on():
    def hears(how: int) -> dict:
        return {r: (Put((r + 1) % 2, ALL), Get((r + 1) % 2, ALL, how)) for r in range(2)}

    assert_right(handmade("barrier", hears(REDUCE_BEFORE), p=2))
    forgetful = handmade("barrier", hears(COPY), p=2)
    assert not verify(forgetful).right
    assert harm(forgetful, seed=1)


@pytest.mark.parametrize(
    ("gets", "in_order"),
    [
        ((Get(1, ALL, REDUCE_AFTER), Get(2, ALL, REDUCE_AFTER)), True),
        ((Get(2, ALL, REDUCE_AFTER), Get(1, ALL, REDUCE_AFTER)), False),
        ((Get(1, ALL, REDUCE_BEFORE), Get(2, ALL, REDUCE_AFTER)), False),
    ],
)
def test_a_sum_is_in_rank_order_if_every_operand_stands_on_its_side(gets, in_order):
    verdict = verify(handmade("reduce", {1: Put(0, ALL), 2: Put(0, ALL), 0: gets}, p=3))
    assert verdict.right
    assert verdict.in_rank_order is in_order


def test_partial_sums_stay_in_rank_order_if_they_are_neighbours():
    def reduced_over(left: int, right: int) -> Table:
        """Rank ``left`` + ``right`` first, then into 0."""
        pair = {right: Put(left, ALL), left: Get(right, ALL, REDUCE_AFTER)}
        third = ({1, 2, 3} - {left, right}).pop()
        side = REDUCE_AFTER
        rest = {left: Put(0, ALL), third: Put(0, ALL), 0: tuple(Get(x, ALL, side) for x in sorted((left, third)))}
        return handmade("reduce", pair, rest, p=4)

    assert verify(reduced_over(1, 2)).in_rank_order
    assert verify(reduced_over(2, 3)).in_rank_order
    assert not verify(reduced_over(1, 3)).in_rank_order
