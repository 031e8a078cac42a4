"""Pictures for the terminal, and the story and the times that all pictures are drawn from."""

from dataclasses import replace

import pytest

from unisono.errors import ConfigError
from unisono.interpret.draw import draw_spacetime_text, draw_text
from unisono.interpret.draw.scene import tell
from unisono.interpret.draw.story import Crop, Limits, Story, name_blocks
from unisono.interpret.draw.timeline import Timeline, schedule_time
from unisono.interpret.machine import Link, Machine
from unisono.schedule.catalog import algorithms, find
from unisono.schedule.schedule import Messages, Table

EVERYTHING = Limits(ranks=1000, blocks=10_000, rounds=10_000, messages=100_000)

RING_OF_FOUR = """\
allreduce · ring · 4 ranks · 4 blocks · 6 rounds

before               after
rank   b0 b1 b2 b3   rank   b0 b1 b2 b3
   0    ○  ○  ○  ○      0    ●  ●  ●  ●
   1    ○  ○  ○  ○      1    ●  ●  ●  ●
   2    ○  ○  ○  ○      2    ●  ●  ●  ●
   3    ○  ○  ○  ○      3    ●  ●  ●  ●

round 1: 2 of 4 summed · 0 of 16 done    round 2: 3 of 4 summed · 0 of 16 done
rank  sends    b0 b1 b2 b3               rank  sends    b0 b1 b2 b3
   0  b3 ⇒ 1    ○  ○  2  ○                  0  b2 ⇒ 1    ○  3  2  ○
   1  b0 ⇒ 2    ○  ○  ○  2                  1  b3 ⇒ 2    ○  ○  3  2
   2  b1 ⇒ 3    2  ○  ○  ○                  2  b0 ⇒ 3    2  ○  ○  3
   3  b2 ⇒ 0    ○  2  ○  ○                  3  b1 ⇒ 0    3  2  ○  ○

round 3: 4 of 4 summed · 4 of 16 done    round 4: 4 of 4 summed · 8 of 16 done
rank  sends    b0 b1 b2 b3               rank  sends    b0 b1 b2 b3
   0  b1 ⇒ 1    ●  3  2  ○                  0  b0 → 1    ●  3  2  ●
   1  b2 ⇒ 2    ○  ●  3  2                  1  b1 → 2    ●  ●  3  2
   2  b3 ⇒ 3    2  ○  ●  3                  2  b2 → 3    2  ●  ●  3
   3  b0 ⇒ 0    3  2  ○  ●                  3  b3 → 0    3  2  ●  ●

round 5: 4 of 4 summed · 12 of 16 done   round 6: 4 of 4 summed · 16 of 16 done
rank  sends    b0 b1 b2 b3               rank  sends    b0 b1 b2 b3
   0  b3 → 1    ●  3  ●  ●                  0  b2 → 1    ●  ●  ●  ●
   1  b0 → 2    ●  ●  3  ●                  1  b3 → 2    ●  ●  ●  ●
   2  b1 → 3    ●  ●  ●  3                  2  b0 → 3    ●  ●  ●  ●
   3  b2 → 0    3  ●  ●  ●                  3  b1 → 0    ●  ●  ●  ●

· nothing   ○ one contribution   2 … sum of so many   ● all that belong there (up to 4)
→ copied   ⇒ added to what is there
"""

MST_OF_FOUR = """\
336 s in all: start-up α 11 %, transit β 89 %; links busy 33 % of the time
      0 send  ▒▒████████████████▒▒████████████████
        recv  ····································
      1 send  ····································
        recv  ··················▒▒████████████████
      2 send  ··················▒▒████████████████
        recv  ▒▒████████████████··················
      3 send  ····································
        recv  ··················▒▒████████████████
              0                              336 s
▒ start-up   █ transit   ▚ reducing   · idle
"""


def table_of(collective: str, name: str, p: int, root: int = 0) -> Table:
    return find(collective, name).schedule(p, root).table


def story_of(collective: str, name: str, p: int, root: int = 0) -> Story:
    return tell(table_of(collective, name, p, root), EVERYTHING)


def badges(story: Story) -> list[str]:
    return [story.badge(frame) for frame in story.frames]


def time_of(collective: str, name: str, p: int, *, n: int, alpha: float, beta: float, gamma: float = 0.0) -> Timeline:
    table = table_of(collective, name, p)
    return schedule_time(table, n, Machine(Link(alpha, beta), gamma))


def test_the_ring_among_four_ranks_reads_as_on_the_slide() -> None:
    assert draw_text(table_of("allreduce", "ring", 4)) == RING_OF_FOUR


def test_a_tree_leaves_most_lanes_idle_in_the_terminal() -> None:
    text = draw_spacetime_text(table_of("broadcast", "mst", 4), 150, Machine(Link(18.0, 1.0), 0.0), width=50)
    assert text == MST_OF_FOUR


def test_recursive_doubling_doubles_what_is_summed() -> None:
    assert badges(story_of("allreduce", "recursive_doubling", 8)) == [
        "2 of 8 summed · 0 of 8 done",
        "4 of 8 summed · 0 of 8 done",
        "8 of 8 summed · 8 of 8 done",
    ]


def test_a_tree_doubles_who_has_the_block() -> None:
    assert badges(story_of("broadcast", "mst", 8, root=3)) == ["2 of 8 in place", "4 of 8 in place", "8 of 8 in place"]


def test_a_barrier_counts_who_was_heard_of() -> None:
    assert badges(story_of("barrier", "dissemination", 5))[-1] == "5 of 5 heard of · 5 of 5 done"


def test_a_scan_is_done_where_all_ranks_below_are_summed() -> None:
    assert [frame.done for frame in story_of("scan", "recursive_doubling", 8).frames] == [2, 4, 8]


@pytest.mark.parametrize("algorithm", algorithms(), ids=lambda a: f"{a.collective.name}-{a.name}")
@pytest.mark.parametrize("p", [1, 2, 5, 8, 13])
def test_every_story_ends_with_all_results_in_place(algorithm, p: int) -> None:
    story = tell(algorithm.schedule(p, root=p - 1).table, EVERYTHING)
    promised = [cell for _, row in story.after.rows for cell in row if cell.promised]
    assert len(promised) == story.promised > 0
    assert all(cell.done for cell in promised)
    assert not story.frames or story.frames[-1].done == story.promised


@pytest.mark.parametrize(("collective", "name"), [("allreduce", "circulant"), ("alltoall", "bruck"), ("reduce", "mst")])
def test_every_message_of_the_schedule_is_told(collective: str, name: str) -> None:
    table = table_of(collective, name, 7)
    told = {
        (f.round, m.source, m.target, b) for f in tell(table, EVERYTHING).frames for m in f.messages for b in m.blocks
    }
    puts = zip(*(column.tolist() for column in table.puts), strict=True)
    expected = {(t, r, to, (first + i) % table.blocks) for t, r, to, _, first, count, _ in puts for i in range(count)}
    assert told == expected


def test_all_to_all_shows_each_rank_its_own_blocks_only() -> None:
    text = draw_text(table_of("alltoall", "pairwise", 5))
    assert "   1    5  6  7  8  9      1    1  6 11 16 21\n" in text


def test_a_lost_contribution_is_not_drawn_as_a_result() -> None:
    table = table_of("allreduce", "flat", 4)
    silent = table.puts.rank != 2
    deaf = (table.gets.peer != 2) | (table.gets.round != 0)
    broken = replace(
        table,
        puts=Messages(*(column[silent] for column in table.puts)),
        gets=Messages(*(column[deaf] for column in table.gets)),
    )
    assert badges(tell(broken, EVERYTHING))[-1] == "3 of 4 summed · 0 of 4 done"


def test_a_contribution_that_is_counted_twice_is_crossed_out() -> None:
    table = table_of("allreduce", "flat", 3)
    twice = replace(
        table,
        puts=Messages(*(column[[0, 1, 1, 2, 3]] for column in table.puts)),
        gets=Messages(*(column[[0, 1, 1, 2, 3]] for column in table.gets)),
    )
    text = draw_text(twice)
    assert "   0    ×" in text
    assert "× wrong" in text


@pytest.mark.parametrize(
    ("collective", "name", "p", "said"),
    [
        ("allreduce", "ring", 64, ["… 114 more rounds …", "48 more ranks", "43 more blocks left out"]),
        ("alltoall", "bruck", 64, ["48 more ranks", "43 more blocks left out"]),
        ("allreduce", "exchange", 200, ["184 more ranks"]),
        ("broadcast", "pipelined_chain", 100, ["more rounds …"]),
    ],
)
def test_long_schedules_are_cut_and_say_so(collective: str, name: str, p: int, said: list[str]) -> None:
    text = draw_text(table_of(collective, name, p))
    assert len(text) < 50_000
    assert all(part in text for part in said), text


def test_a_thousand_blocks_are_cut() -> None:
    text = draw_text(find("broadcast", "pipelined_chain").schedule(4, segments=1000).table)
    assert len(text) < 50_000
    assert "979 more blocks left out" in text


def test_a_picture_that_nobody_could_look_at_is_refused() -> None:
    with pytest.raises(ConfigError, match="too many for a picture"):
        draw_text(replace(table_of("allreduce", "mst", 4), p=4096, blocks=4096))


def test_text_stays_within_the_width_that_it_was_given() -> None:
    assert max(map(len, draw_text(table_of("allreduce", "ring", 8), width=60).splitlines()[:-2])) <= 60


def test_times_are_those_of_the_closed_forms() -> None:
    n, p, alpha, beta, gamma = 1300, 13, 7.0, 3.0, 2.0
    ring = time_of("allreduce", "ring", p, n=n, alpha=alpha, beta=beta, gamma=gamma)
    assert ring.total == pytest.approx(2 * (p - 1) * (alpha + n / p * beta) + (p - 1) * n / p * gamma)
    tree = time_of("broadcast", "mst", p, n=n, alpha=alpha, beta=beta)
    assert tree.total == pytest.approx(4 * (alpha + n * beta))
    assert tree.parts == pytest.approx((4 * alpha, 4 * n * beta, 0))


def test_the_ring_keeps_all_links_busy_and_the_tree_does_not() -> None:
    assert time_of("allgather", "ring", 8, n=8000, alpha=0.0, beta=1.0).busy == pytest.approx(1)
    assert time_of("broadcast", "mst", 8, n=8000, alpha=0.0, beta=1.0).busy == pytest.approx(7 / 24)


def test_blocks_that_do_not_divide_evenly_are_timed_by_the_larger_ones() -> None:
    assert time_of("allgather", "ring", 4, n=5, alpha=0.0, beta=1.0).total == 3 * 2


def test_a_zero_byte_barrier_takes_start_up_only() -> None:
    timeline = time_of("barrier", "dissemination", 8, n=1 << 20, alpha=1.0, beta=1.0)
    assert (timeline.total, timeline.busy) == (3, 0)


def test_runs_of_blocks_have_short_names() -> None:
    assert name_blocks([3], 8) == "b3"
    assert name_blocks([7, 0, 1], 8) == "b0-1,7"
    assert name_blocks(range(8), 8) == "all"
    assert name_blocks([1, 3, 5, 7], 9) == "4 blocks"


def test_a_crop_keeps_the_first_and_the_last() -> None:
    assert Crop.of(10, 4) == ([0, 1, 2, 9], 3, 6)
    assert Crop.of(4, 4) == ([0, 1, 2, 3], 4, 0)
