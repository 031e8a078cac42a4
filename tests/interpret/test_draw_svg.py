"""Pictures as SVG: valid, complete, small enough, and no text on top of another."""

import re
from collections import Counter
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest

from unisono.interpret.draw import draw_spacetime, draw_svg
from unisono.interpret.machine import Link, Machine
from unisono.schedule.catalog import algorithms, find
from unisono.schedule.schedule import Table

COSTS = {"nbytes": 1 << 20, "machine": Machine(Link(30e-6, 8e-10), 1e-10)}
SVG = "{http://www.w3.org/2000/svg}"


def table_of(collective: str, name: str, p: int, root: int = 0) -> Table:
    return find(collective, name).schedule(p, root).table


def parse(document: str) -> ElementTree.Element:
    return ElementTree.fromstring(document)


def texts(document: str) -> list[str]:
    return [element.text or "" for element in parse(document).iter(f"{SVG}text")]


def text_boxes(element: ElementTree.Element, size: float = 11, anchor: str = "start") -> list[tuple[float, ...]]:
    """Left, top, right and bottom of each text, as a sans-serif font would have it."""
    size, anchor = float(element.get("font-size", size)), element.get("text-anchor", anchor)
    boxes = [box for child in element for box in text_boxes(child, size, anchor)]
    if element.tag == f"{SVG}text":
        x, y, width = float(element.get("x", 0)), float(element.get("y", 0)), 0.52 * size * len(element.text or "")
        left = x - {"start": 0, "middle": 0.5, "end": 1}[anchor] * width
        boxes.append((left, y - 0.7 * size, left + width, y))
    return boxes


@pytest.mark.parametrize("algorithm", algorithms(), ids=lambda a: f"{a.collective.name}-{a.name}")
@pytest.mark.parametrize("p", [1, 2, 5, 8, 13])
def test_the_whole_catalogue_is_drawn_without_text_on_text(algorithm, p: int) -> None:
    document = draw_svg(algorithm.schedule(p, root=p // 2).table, **COSTS)
    root = parse(document)
    boxes = np.array(text_boxes(root))
    left, top, right, bottom = boxes.T
    assert left.min() >= 0
    assert right.max() <= float(root.get("width", 0))
    assert bottom.max() <= float(root.get("height", 0))
    overlap = (left[:, None] < right) & (left < right[:, None]) & (top[:, None] < bottom) & (top < bottom[:, None])
    assert overlap.sum() == len(boxes), "a text overlaps another"
    assert len(document) < 2_000_000


@pytest.mark.parametrize(
    ("collective", "name", "p"),
    [("allreduce", "ring", 4), ("broadcast", "mst", 8), ("alltoall", "bruck", 7), ("allreduce", "direct", 13)],
)
def test_every_message_is_an_arrow(collective: str, name: str, p: int) -> None:
    table = table_of(collective, name, p)
    tips = [element.text or "" for element in parse(draw_svg(table, **COSTS)).iter(f"{SVG}title")]
    drawn = Counter(match.group(1) for tip in tips if (match := re.match(r"(\d+ → \d+): ", tip)))
    messages = set(zip(table.puts.round.tolist(), table.puts.rank.tolist(), table.puts.peer.tolist(), strict=True))
    assert drawn == Counter(f"{source} → {target}" for _, source, target in messages)


def test_rounds_carry_their_badges() -> None:
    shown = texts(draw_svg(table_of("reduce_scatter", "ring", 8), **COSTS))
    assert [text for text in shown if "summed" in text] == [
        f"{k} of 8 summed · {8 if k == 8 else 0} of 8 done" for k in range(2, 9)
    ]


def test_a_cell_says_how_many_contributions_it_holds() -> None:
    shown = Counter(texts(draw_svg(table_of("allreduce", "flat", 13), **COSTS)))
    before, after, legend = shown["x₅"], shown["Σ13"], 1
    assert (before, after) == (1, 13)
    assert shown["13"] == 1 + 13 + legend, "the root after round 1, all after round 2"


def test_the_share_of_busy_links_is_printed() -> None:
    costs = COSTS | {"machine": Machine(Link(0.0, 8e-10), 0.0)}
    tree, ring = (
        draw_svg(table_of(*schedule, 8), **costs) for schedule in (("broadcast", "mst"), ("allreduce", "ring"))
    )
    assert any("links busy 29 % of the time" in text for text in texts(tree))
    assert any("links busy 100 % of the time" in text for text in texts(ring))


def test_schedules_are_compared_on_one_axis_of_time() -> None:
    tables = [table_of("broadcast", name, 8) for name in ("mst", "ring")]
    shown = texts(draw_spacetime(tables, **COSTS))
    assert "broadcast · mst · 8 ranks" in shown
    assert "broadcast · ring · 8 ranks" in shown
    ticks = Counter(text for text in shown if re.fullmatch(r"[\d.]+ (s|ms|µs)", text))
    assert ticks
    assert set(ticks.values()) == {2}


@pytest.mark.parametrize(
    ("collective", "name", "p"),
    [
        ("allreduce", "ring", 16),
        ("allreduce", "ring", 64),
        ("allreduce", "weighted", 16),
        ("allreduce", "exchange", 100),
        ("allreduce", "mst", 1000),
        ("alltoall", "bruck", 64),
        ("alltoall", "pairwise", 32),
        ("alltoall", "pairwise", 64),
    ],
)
def test_pictures_of_large_schedules_stay_small(collective: str, name: str, p: int) -> None:
    document = draw_svg(table_of(collective, name, p), **COSTS)
    assert len(document.encode()) < 2_000_000
    parse(document)


def test_what_is_left_out_is_said() -> None:
    shown = texts(draw_svg(table_of("allreduce", "ring", 64), **COSTS))
    assert "… 112 more rounds …" in shown
    assert "… 32 more ranks …" in shown
    assert any(text.startswith("arrows of the first 23 rounds") for text in shown)
    shown = texts(draw_svg(table_of("allreduce", "exchange", 100), **COSTS))
    assert "400 of 9,900 messages drawn" in shown


def test_a_thousand_segments_stay_small_and_are_cut() -> None:
    document = draw_svg(find("broadcast", "pipelined_chain").schedule(16, segments=1000).table, **COSTS)
    assert len(document.encode()) < 2_000_000
    assert any("the first 512 of 1,014 rounds" in text for text in texts(document))


def test_a_name_with_markup_stays_text() -> None:
    table = replace(table_of("allreduce", "ring", 3), name='<b>&"mine"\x01')
    assert any('<b>&"mine"' in text for text in texts(draw_svg(table, **COSTS)))


def test_one_rank_has_nothing_to_send() -> None:
    shown = texts(draw_svg(table_of("allreduce", "ring", 1), **COSTS))
    assert "No rounds: nothing has to be sent." in shown


def test_free_communication_is_drawn_without_a_time_axis() -> None:
    shown = texts(draw_svg(table_of("allreduce", "ring", 4), nbytes=0, machine=Machine(Link(0.0, 0.0), 0.0)))
    assert "takes no time" in shown


def test_unequal_blocks_change_the_times() -> None:
    table = replace(table_of("allgather", "ring", 2), shares=np.array([1, 3]))
    shown = texts(draw_svg(table, 40, Machine(Link(0.0, 1.0), 0.0)))
    assert any(text.startswith("30 s in all") for text in shown)


def test_nothing_in_the_picture_runs_or_is_fetched() -> None:
    document = draw_svg(table_of("allreduce", "ring", 4), **COSTS)
    assert "<script" not in document
    assert "href" not in document
