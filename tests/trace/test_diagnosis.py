"""What is concluded from the dumps of a job, whatever they are."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.trace.dumps import any_dumps, call, dump, names, peer, words

from unisono.cli.story import tell_story, tell_the_rest
from unisono.cli.words import ranks
from unisono.trace.causes import What
from unisono.trace.diagnosis import Diagnosis, diagnose
from unisono.trace.dump import Dump, write
from unisono.trace.plain import to_plain
from unisono.trace.record import Kind


def told(found: Diagnosis) -> str:
    return "\n".join([line for story in found.stories for line in tell_story(found, story)] + tell_the_rest(found))


def diagnosed(*dumps: Dump) -> Diagnosis:
    found = diagnose(dumps)
    assert found is not None
    return found


def survivors_of_rank_2() -> list[Dump]:
    """Rank 2 of 4 was killed; in a ring, 3 waits for 2, 0 for 3 and 1 for 0."""
    lost = "rank 3 lost rank 2: its process has ended"
    waits = {0: peer(3, waited=3.1), 1: peer(0, waited=3.1), 3: peer(2, waited=3.1, arrived=False)}
    return [
        dump(
            rank,
            4,
            "PeerLost",
            lost,
            call(811, peer((rank - 1) % 4)),
            call(812, wait, outcome="failed"),
        )
        for rank, wait in waits.items()
    ]


def test_a_killed_rank_is_named_with_its_last_call_and_the_chain_that_waited_for_it() -> None:
    found = diagnosed(*survivors_of_rank_2())
    assert found.stories[0].cause.what is What.DIED
    text = told(found)
    assert (
        "First cause: rank 2 (host a, pid 1002) died without a word in or after call 811, "
        "allreduce ring of 4 MiB float32, train.py:42. It left no record" in text
    )
    assert "Rank 3 waited 3.100 s for rank 2, which had not come; rank 0 waited 3.100 s for rank 3;" in text
    assert "(chain: 1 → 0 → 3 → 2)" in text


def test_the_two_calls_of_a_mismatch_stand_side_by_side() -> None:
    def made(rank: int) -> Dump:
        root = 1 if rank == 1 else 0
        kind = Kind("broadcast", "mst", "int64", None, root)
        mine = call(3, kind=kind, outcome="failed", bytes=80, where=f"/x/t.py:{root}")
        return dump(rank, 3, "MismatchError", "they differ", call(2), mine)

    assert (
        "the ranks made different calls as their call 3: ranks 0 and 2 called broadcast mst of 80 B int64, root 0, "
        "t.py:0; rank 1 called broadcast mst of 80 B int64, root 1, t.py:1." in told(diagnosed(*map(made, range(3))))
    )


def test_a_mismatch_that_is_over_is_not_told_again() -> None:
    def made(rank: int) -> Dump:
        earlier, now = (
            call(number, kind=Kind("barrier"), outcome="failed", bytes=8 * rank, where=f"t.py:{number}")
            for number in (1, 3)
        )
        return dump(rank, 2, "MismatchError", "they differ", earlier, call(2), now)

    text = told(diagnosed(made(0), made(1)))
    assert "as their call 3: rank 0 called barrier of 0 B, t.py:3; rank 1 called barrier of 8 B, t.py:3." in text


def test_a_rank_that_was_lost_but_left_a_record_is_not_said_to_have_died() -> None:
    lost = "rank 0 lost rank 1: connection reset"
    found = diagnosed(
        dump(0, 2, "PeerLost", lost, call(5, peer(1, waited=1), outcome="failed")),
        dump(1, 2, "PeerLost", lost, call(5, peer(0), outcome="failed")),
    )
    text = told(found)
    assert f"rank 1 (host a, pid 1001) was lost, but left a record: {lost}. It was in call 5, " in text


def test_a_rank_that_was_elsewhere_at_the_deadline_is_shown_where_it_was() -> None:
    late = "rank 0 has waited for rank 1 in call 5"
    found = diagnosed(
        dump(0, 2, "DeadlineExceeded", late, call(5, peer(1, waited=300, arrived=False), outcome="failed")),
        dump(1, 2, "DeadlineExceeded", late, call(4, peer(0)), at="/data/load.py:7"),
    )
    assert found.stories[0].cause.what is What.ELSEWHERE
    assert "rank 1 (host a, pid 1001) did not come in time to call 5, " in told(found)
    assert "it was at load.py:7 in work." in told(found)


def test_a_rank_without_a_record_that_let_time_run_out_may_have_been_stopped() -> None:
    late = call(5, peer(1, waited=300, arrived=False), outcome="failed")
    found = diagnosed(dump(0, 2, "DeadlineExceeded", "rank 0 has waited for rank 1 in call 5", late))
    assert found.stories[0].cause.what is What.SILENT
    assert "rank 1 (host a, pid 1001) did not answer in call 5" in told(found)


def test_an_error_of_a_rank_comes_before_what_the_others_say_of_it() -> None:
    raised = dump(1, 2, "ValueError", "no such row", call(4, peer(0)), clock=2e9)
    lost = call(5, peer(1, waited=1, arrived=False), outcome="failed")
    found = diagnosed(dump(0, 2, "PeerLost", "rank 0 lost rank 1: its process has ended", lost, clock=1e9), raised)
    assert found.stories[0].cause.what is What.RAISED
    assert "First cause: rank 1 (host a, pid 1001) raised ValueError: no such row" in told(found)
    assert "It had completed call 4, " in told(found)


def test_an_interrupt_is_told_with_whom_everybody_waited_for() -> None:
    waiting = call(5, peer(1, waited=60, arrived=False), outcome="failed")
    found = diagnosed(
        dump(0, 3, "KeyboardInterrupt", "", waiting),
        dump(1, 3, "PeerLost", "rank 0 (host a, pid 1000) was interrupted in allreduce", call(4), at="/load.py:7"),
        dump(2, 3, "KeyboardInterrupt", "", waiting),
    )
    assert "First cause: ranks 0 and 2 were interrupted (Ctrl-C)." in told(found)
    assert "Rank 1, which they waited for, was at load.py:7 in work, after call 4, " in told(found)


def test_an_interrupted_rank_without_a_record_is_known_from_the_others() -> None:
    text = "rank 1 (host a, pid 1001) was interrupted in allreduce"
    found = diagnosed(dump(0, 2, "PeerLost", text, call(5, peer(1), outcome="failed")))
    assert found.stories[0].cause.what is What.INTERRUPTED
    assert found.stories[0].cause.ranks == [1]


def test_ranks_of_a_smaller_communicator_have_the_numbers_of_the_job() -> None:
    lost = call(7, peer(1, waited=1, arrived=False), outcome="failed")
    part = {"communicator": "world.0.2", "ranks": [2, 3], "clock": 1e9}
    found = diagnosed(
        dump(2, 4, "PeerLost", "rank 0 lost rank 1: its process has ended", lost, **part),
        dump(0, 4, "PeerLost", "rank 0 lost rank 3: its process has ended", call(9, outcome="failed"), clock=1e9 + 1),
    )
    assert [story.communicator for story in found.stories] == ["world.0.2", "world"]
    text = told(found)
    assert "First cause in communicator world.0.2 (ranks 2 and 3): rank 3 (host a, pid 1003) died" in text
    assert "Then in the communicator of all ranks: rank 3 (host a, pid 1003) died" in text
    assert "these are numbered as it numbers them" in text
    assert found.silent == [1, 3]


def test_ranks_that_wait_for_each_other_in_a_circle_are_a_chain_that_closes() -> None:
    found = diagnosed(
        *(
            dump(rank, 2, "DeadlineExceeded", "late", call(1, peer(1 - rank, waited=5), outcome="failed"))
            for rank in range(2)
        )
    )
    assert found.stories[0].chain in ([0, 1, 0], [1, 0, 1])
    assert "was not through at the deadline" in told(found)


def test_of_two_runs_the_newest_is_told_and_the_other_mentioned() -> None:
    old = dump(3, 4, "PeerLost", "rank 3 lost rank 0: gone", run="old", clock=0.0)
    found = diagnosed(old, *survivors_of_rank_2())
    assert "died without a word in or after call 811" in told(found)
    assert "Of another run, which is not told here: rank 3, 1970-01-01 00:00:00 UTC (old)." in told(found)


def test_clocks_of_several_hosts_are_not_trusted() -> None:
    one, two, three = survivors_of_rank_2()
    assert "clocks" not in told(diagnosed(one, two, three))
    assert "whose clocks may differ" in told(diagnosed(one, two._replace(host="b"), three))


def test_nothing_gives_no_diagnosis() -> None:
    assert diagnose([]) is None


@given(any_dumps())
def test_any_dumps_give_a_diagnosis_and_words_and_name_every_rank_that_left_nothing(dumps: list[Dump]) -> None:
    found = diagnose(dumps)
    assert (found is None) == (not dumps)
    if found is None:
        return
    recorded = {one.rank for one in dumps if one.run == found.run}
    assert found.silent == [rank for rank in range(dumps[0].size) if rank not in recorded]
    text = told(found)
    assert not found.silent or f"No record of {ranks(found.silent)}:" in text
    assert json.loads(json.dumps(to_plain(found)))
    for story in found.stories:
        assert [state.rank for state in story.states] == story.ranks
        assert set(story.cause.ranks) <= set(story.ranks)
        assert set(story.chain) <= set(story.ranks)


@given(st.sets(st.integers(0, 3), min_size=1, max_size=3))
def test_the_survivors_of_any_killed_rank_name_it(survivors: set[int]) -> None:
    dead = min(set(range(4)) - survivors)
    lost = f"rank {min(survivors)} lost rank {dead}: its process has ended"
    absent = call(1, peer(dead, waited=1, arrived=False), outcome="failed")
    found = diagnosed(*(dump(rank, 4, "PeerLost", lost, absent) for rank in survivors))
    assert told(found).startswith(f"First cause: {names(4)[dead]} died without a word")


@pytest.mark.parametrize(
    ("numbers", "text"),
    [([2], "rank 2"), ([0, 1], "ranks 0 and 1"), ([0, 2, 3, 4, 7], "ranks 0, 2-4 and 7"), (range(9), "ranks 0-8")],
)
def test_ranks_are_named_shortly(numbers: list[int], text: str) -> None:
    assert ranks(list(numbers)) == text


def test_many_ranks_are_not_all_shown(tmp_path: Path) -> None:
    late = call(1, peer(99, waited=1, arrived=False), outcome="failed")
    for rank in range(99):
        write(tmp_path, dump(rank, 100, "PeerLost", "rank 0 lost rank 99: its process has ended", late))
    text = words(tmp_path)
    assert re.search(r"^rank 99 \(host a, pid 1099\) +left no record", text, re.MULTILINE)
    assert "and 36 more: --json has them all" in text
    assert len(json.loads(words(tmp_path, "--json"))["stories"][0]["states"]) == 100
