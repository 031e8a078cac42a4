"""Pictures and traces of simulations: complete where there is room, cropped where there is not."""

import json
import xml.etree.ElementTree as ET
from collections import defaultdict
from itertools import pairwise

import pytest

from unisono.schedule.catalog import find
from unisono.simulate import Outcome, simulate
from unisono.simulate.chrome import MOST_MESSAGES, chrome_trace
from unisono.simulate.draw import draw_flights, draw_heat

NAMESPACE = "{http://www.w3.org/2000/svg}"


def run(name: str, p: int, on: str, **options) -> Outcome:
    return simulate(find("allreduce", name).schedule(p), 1 << 20, on=on, record=True, **options)


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ET.fromstring(svg).iter(f"{NAMESPACE}text")]


@pytest.mark.parametrize(("p", "on"), [(1, "switch"), (8, "ring"), (64, "fat-tree"), (300, "torus")])
def test_both_pictures_are_svg_and_name_the_bottleneck(p: int, on: str) -> None:
    found = run("ring", p, on)
    for picture in (draw_flights(found), draw_heat(found)):
        said = texts(picture)
        assert f"{p:,} ranks" in said[0]
        assert found.time == 0 or found.bottleneck.name in said[1]


def test_a_message_that_others_slow_down_is_drawn_so() -> None:
    alone, shared = run("ring", 8, "ring"), run("recursive_doubling", 8, "ring")
    assert alone.flights is not None
    assert shared.flights is not None
    assert ((alone.flights.ended - alone.flights.began) < 1.0001 * alone.flights.alone).all()
    slowed = (shared.flights.ended - shared.flights.began) > 1.5 * shared.flights.alone
    assert slowed.sum() == 16  # rounds 2 and 3


def test_the_heat_map_has_a_cell_for_each_link() -> None:
    picture = draw_heat(run("recursive_doubling", 12, "mesh:3x4"))
    cells = sum(path.attrib["d"].count("z") for path in ET.fromstring(picture).iter(f"{NAMESPACE}path"))
    assert cells == 2 * 12 + 4 * 12
    assert "links, x up (12)" in texts(picture)


def test_large_simulations_are_cropped_and_say_so() -> None:
    found = run("recursive_doubling", 4096, "torus")
    assert len(draw_flights(found)) < 5_000_000
    assert "ranks 0 to 47 of 4,096, and what they send each other" in " ".join(texts(draw_flights(found)))
    assert len(draw_heat(found)) < 3_000_000
    assert len(chrome_trace(found)) < 15_000_000


def test_what_takes_no_time_has_one_tick() -> None:
    said = texts(draw_flights(run("ring", 1, "switch")))
    assert "0 s" in said
    assert not [text for text in said if text.endswith("ns")]


def test_a_picture_of_segments_has_the_lanes_of_their_ranks() -> None:
    found = run("mst", 4, "switch", segment=1 << 18)
    picture = draw_flights(found)
    assert [text for text in texts(picture) if text.isdigit()] == ["0", "1", "2", "3"]
    assert found.flights is not None
    assert set(found.flights.target) <= set(range(4))


def test_a_trace_has_every_message_on_tracks_that_do_not_overlap() -> None:
    found = run("direct", 6, "hierarchy:2x3", stragglers={4: 3.0})
    events = json.loads(chrome_trace(found))
    spans = [event for event in events if event["ph"] == "X"]
    assert len(spans) == 2 * found.messages <= 2 * MOST_MESSAGES
    assert len({event["id"] for event in events if event["ph"] == "s"}) == found.messages
    tracks = defaultdict(list)
    for span in spans:
        tracks[span["pid"], span["tid"]].append((span["ts"], span["ts"] + span["dur"]))
    for track in tracks.values():
        track.sort()
        assert all(a[1] <= b[0] + 1e-3 for a, b in pairwise(track))
    assert max(end for track in tracks.values() for _, end in track) == pytest.approx(found.time * 1e6, rel=1e-6)
