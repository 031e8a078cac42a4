"""Two ranks that wait for each other in different things: when that is said, and when it may still end well."""

from dataclasses import replace

from unisono.comm.divergence import crossed_errand
from unisono.comm.incident import CallFacts, Errand, Status
from unisono.comm.words import Names, of_crossing

CALL = CallFacts(5, "allreduce", "b.py:7")
BEFORE = CallFacts(4, "barrier", "b.py:1")
MEETING = Errand("new_group of ranks 0, 1", "a.py:3", "1 [0, 1]", [0, 1], since=2.0)
WAITS = Status(last=BEFORE, errand=MEETING)
IN_CALL = Status(last=CALL, in_call=True, since=2.0, inside=True)


def test_a_call_that_the_other_has_not_come_to_is_named_with_both_lines() -> None:
    statuses = {0: WAITS, 1: IN_CALL}
    assert crossed_errand(statuses) == (0, 1)
    text = of_crossing((0, 1), statuses, Names(["rank 0", "rank 1"], {}))
    assert "rank 0 in new_group of ranks 0, 1 at a.py:3, but rank 1 in call 5, allreduce at b.py:7" in text


def test_another_errand_that_waits_for_this_rank_is_named() -> None:
    message = Errand("recv from rank 0", "b.py:9", "letter", [0], since=2.0)
    assert crossed_errand({0: WAITS, 1: Status(errand=message)}) == (0, 1)
    assert crossed_errand({0: WAITS, 1: Status(errand=replace(message, ranks=[2]))}) is None


def test_what_may_still_end_well_is_left_alone() -> None:
    for other in (
        replace(IN_CALL, inside=False),  # goes on by itself, while the program computes
        replace(IN_CALL, in_call=False),
        replace(IN_CALL, since=0.1),
        replace(IN_CALL, last=replace(CALL, sequence=None)),  # of two ranks, maybe others
        Status(errand=replace(MEETING, since=0.1)),  # has just come
        None,  # did not answer
    ):
        assert crossed_errand({0: WAITS, 1: other}) is None, other
    for own in (
        replace(WAITS, last=CALL),  # has started that call, and goes on
        replace(WAITS, in_call=True),
        replace(WAITS, errand=replace(MEETING, since=0.1)),
        replace(WAITS, errand=replace(MEETING, ranks=[0, 2])),
        replace(WAITS, errand=None),
    ):
        assert crossed_errand({0: own, 1: IN_CALL}) is None, own
