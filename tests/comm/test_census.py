"""Who may go on: never two groups of one communicator."""

from itertools import product

from unisono.comm.census import Census


def census(size: int, members: list[int], dead: list[int]) -> Census:
    return Census(members[0], size, present=set(members[1:]), ended=set(dead))


def test_of_two_groups_at_most_one_goes_on() -> None:
    """Every way to be dead, in one group, in another, or in none."""
    for size in range(2, 7):
        for places in product("dabn", repeat=size):
            dead, one, other = ([rank for rank in range(size) if places[rank] == x] for x in "dab")
            if one and other:
                assert not (census(size, one, dead).may_go_on() and census(size, other, dead).may_go_on()), places


def test_all_that_are_not_dead_may_always_go_on() -> None:
    for size in range(1, 7):
        for dead in product([True, False], repeat=size):
            alive = [rank for rank in range(size) if not dead[rank]]
            if alive:
                assert census(size, alive, [rank for rank in range(size) if dead[rank]]).may_go_on()


def test_one_alone_waits_for_who_may_live() -> None:
    assert not census(2, [0], []).may_go_on()
    assert census(2, [0], [1]).may_go_on()
    assert census(4, [0, 3], []).may_go_on()
    assert not census(4, [1, 3], []).may_go_on()


def test_who_is_doubted_or_has_left_is_not_awaited_until_it_is_met() -> None:
    known = Census(1, 5, left={0})
    known.doubt([2, 1])  # nobody doubts itself
    assert known.awaited == {3, 4}
    known.meet(0)
    known.meet(2)
    known.doubt([2])
    assert known.awaited == {0, 2, 3, 4}
    known.lose_sight_of(2)
    assert known.awaited == {0, 3, 4}
    assert known.absent == {0, 2, 3, 4}
