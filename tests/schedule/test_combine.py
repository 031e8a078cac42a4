"""The laws of the combinators: what a composed pattern does, in terms of its parts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unisono.schedule import circulant, direct, hierarchy, mesh, recursive, ring, tree
from unisono.schedule.combine import dual, on, pipelined, then, together
from unisono.schedule.conditions import COLLECTIVES
from unisono.schedule.ir import (
    ALL,
    COPY,
    NOBODY,
    REDUCE_AFTER,
    REDUCE_BEFORE,
    TEMP,
    Do,
    Get,
    Put,
    Rounds,
    Span,
    operations,
    rounds,
)
from unisono.schedule.pattern import Pattern
from unisono.schedule.schedule import Messages, Schedule, Table

WITHOUT_MOVES = (
    direct.flat_broadcast,
    direct.flat_scatter,
    direct.direct_allgather,
    ring.ring_allgather,
    tree.mst_broadcast,
    tree.mst_scatter,
    tree.two_tree_reduce,
    tree.pipelined_chain_broadcast,
    circulant.bruck_allgather,
    recursive.recursive_doubling_allgather,
    mesh.mesh_allgather,
    hierarchy.host_allgather,
    ring.ring_allreduce,
)
every_pattern = pytest.mark.parametrize("pattern", WITHOUT_MOVES, ids=lambda pattern: pattern.name)


def unrolled(pattern: Pattern, p: int, blocks: int | None = None, **more: int) -> Table:
    """The table of a pattern on its own, with the parameters that one of the patterns here may need."""
    parameters = {"dims": (p, 1), "hosts": (p // 2, p - p // 2), "segments": 3} | more
    blocks = blocks or 4 * p
    return Schedule(COLLECTIVES["allreduce"], "", pattern, p, p // 3, blocks, p, parameters=parameters).table


def rows(messages: Messages, *, delay: int = 0) -> list[tuple[int, ...]]:
    """Rows without ``how``: round, rank, peer, space, first, count."""
    return list(zip((messages.round + delay).tolist(), *(column.tolist() for column in messages[1:-1]), strict=True))


def reversed_in_time(table: Table, messages: Messages) -> list[tuple[int, ...]]:
    return [(table.rounds - 1 - t, *rest) for t, *rest in rows(messages)]


def backwards(pattern: Pattern, *, reducing: bool = False) -> Pattern:
    return dual(pattern, name="dual", summary="", reducing=reducing)


@every_pattern
@pytest.mark.parametrize("p", [2, 3, 4, 7])
def test_the_dual_of_the_dual_is_the_pattern_itself_but_for_how(pattern, p):
    once, twice = unrolled(pattern, p), unrolled(backwards(backwards(pattern, reducing=True)), p)
    assert rows(twice.puts) == rows(once.puts)
    assert rows(twice.gets) == rows(once.gets)
    assert twice.rounds == once.rounds
    assert not (twice.gets.how != COPY).any()


@every_pattern
@pytest.mark.parametrize("p", [2, 5, 8])
def test_the_dual_gets_what_was_put_and_puts_what_was_got_last_round_first(pattern, p):
    forth, back = unrolled(pattern, p), unrolled(backwards(pattern), p)
    assert sorted(rows(back.gets)) == sorted(reversed_in_time(forth, forth.puts))
    assert sorted(rows(back.puts)) == sorted(reversed_in_time(forth, forth.gets))


@every_pattern
def test_a_reducing_dual_keeps_lower_ranks_on_the_left(pattern):
    gets = unrolled(backwards(pattern, reducing=True), 6).gets
    assert gets.how.tolist() == np.where(gets.peer < gets.rank, REDUCE_BEFORE, REDUCE_AFTER).tolist()


def test_a_pattern_with_local_moves_has_no_dual():
    with pytest.raises(ValueError, match="dissemination_barrier has local moves"):
        unrolled(backwards(circulant.dissemination_barrier), 4)


def test_a_sequence_is_one_pattern_after_the_other():
    first, second = unrolled(tree.mst_scatter, 6), unrolled(ring.ring_allgather, 6)
    both = unrolled(then(tree.mst_scatter, ring.ring_allgather, name="", summary=""), 6)
    assert both.rounds == first.rounds + second.rounds
    for side in ("puts", "gets"):
        delayed = rows(getattr(second, side), delay=first.rounds)
        assert rows(getattr(both, side)) == rows(getattr(first, side)) + delayed


def test_a_sequence_of_sequences_has_the_phases_of_both_and_all_their_parameters():
    a, b, c = tree.mst_broadcast, ring.ring_allgather, mesh.mesh_allgather
    left = then(then(a, b, name="", summary=""), c, name="", summary="")
    right = then(a, then(b, c, name="", summary=""), name="", summary="")
    assert left.phases == right.phases == (a, b, c)
    assert left.parameters == {"root", "dims"}


def as_stream(lengths: list[int], space: int) -> Rounds:
    """Yields that stand for so many rounds each; the n-th round of the stream puts block n."""
    start = 0
    for count in lengths:
        block = start if count == 1 else start + rounds(count)
        yield Put(0, Span(block, 1, space))
        start += count


lengths = st.lists(st.integers(1, 4), max_size=5)


@given(one=lengths, other=lengths)
def test_streams_side_by_side_keep_their_rounds_and_last_as_long_as_the_longest(one, other):
    pattern = Pattern(lambda p, r: together(as_stream(one, space=2), as_stream(other, space=3)), "")
    table = unrolled(pattern, 1, blocks=32)
    assert table.rounds == max(sum(one), sum(other))
    for space, length in ((2, sum(one)), (3, sum(other))):
        of_stream = table.puts.space == space
        assert table.puts.round[of_stream].tolist() == list(range(length))
        assert table.puts.first[of_stream].tolist() == list(range(length))


def placed(operation, **options):
    """What becomes of one operation on a group whose i-th member is rank 10 + i."""
    (round_,) = on(iter([operation]), real=lambda i: 10 + i, **options)
    return list(operations(round_))


def test_a_group_has_real_ranks_in_place_of_its_numbers():
    assert placed(Put(2, Span(1))) == [Put(12, Span(1))]
    assert placed(Get(2, Span(1), REDUCE_AFTER)) == [Get(12, Span(1), REDUCE_AFTER)]


def test_who_is_not_in_the_group_or_has_nobody_to_talk_to_does_nothing():
    assert placed(Put(NOBODY, Span(1))) == []
    assert [put.to for put in placed(Put(2, Span(1)), member=False)] == [NOBODY]
    (put,) = placed(Put(np.array([[1], [NOBODY], [1]]), Span(0)), member=np.array([[True], [True], [False]]))
    assert put.to.tolist() == [[11], [NOBODY], [NOBODY]]


def test_blocks_of_a_part_are_runs_of_blocks_of_the_whole():
    part = {"blocks": 4, "first": lambda b: 20 + 3 * b}
    assert placed(Put(0, Span(1, 2)), **part) == [Put(10, Span(23, 6))]
    assert placed(Put(0, ALL), **part) == [Put(10, Span(20, 12))]
    assert placed(Put(0, Span(2, 2)), **part) == [Put(10, Span(26, 6))]


def test_a_span_that_wraps_is_split_into_the_end_and_the_beginning_of_the_part():
    part = {"blocks": 4, "first": lambda b: 20 + 3 * b}
    assert placed(Put(0, Span(3, 3)), **part) == [Put(10, Span(29, 3)), Put(10, Span(20, 6))]
    assert placed(Get(0, Span(3, 2, TEMP), 1), **part) == [Get(10, Span(29, 3, TEMP), 1), Get(10, Span(20, 3, TEMP), 1)]
    assert placed(Do(Span(3, 2), TEMP), **part) == [Do(Span(29, 3), TEMP), Do(Span(20, 3), TEMP)]


@given(start=st.lists(st.integers(0, 5), min_size=1, max_size=4), count=st.integers(1, 6), width=st.integers(1, 3))
def test_a_column_of_spans_splits_where_each_of_them_wraps(start, count, width):
    column = np.array(start).reshape(-1, 1)
    pieces = placed(Put(0 * column, Span(column, count)), blocks=6, first=lambda b: width * b)
    for i, first in enumerate(start):
        spans = [[int(np.broadcast_to(x, column.shape)[i, 0]) for x in (*put.span, put.to)] for put in pieces]
        blocks = [begin + k for begin, length, _, to in spans if to != NOBODY for k in range(length)]
        assert blocks == [(first + k) % 6 * width + j for k in range(count) for j in range(width)]


@pytest.mark.parametrize("segments", [1, 2, 5])
@pytest.mark.parametrize(
    "pattern", [direct.direct_allreduce, circulant.circulant_allreduce, tree.mst_allreduce, ring.ring_allreduce]
)
def test_every_segment_of_a_pipeline_does_what_the_pattern_does_a_round_after_the_one_before(pattern, segments):
    p = 5
    line = pipelined(pattern, name="", summary="", width=lambda p: p)
    piped, single = unrolled(line, p, p * segments, segments=segments), unrolled(pattern, p, p)
    assert piped.rounds == single.rounds + segments - 1

    def cells(table: Table, messages: Messages, segment: int = 0) -> set[tuple[int, ...]]:
        """Every block that is sent or received: round, rank, peer, block."""
        return {
            (t + segment, rank, peer, (first + k) % table.blocks + segment * p)
            for t, rank, peer, _, first, count in rows(messages)
            for k in range(count)
        }

    for side in ("puts", "gets"):
        each_segment = [cells(single, getattr(single, side), segment) for segment in range(segments)]
        assert cells(piped, getattr(piped, side)) == set().union(*each_segment)
