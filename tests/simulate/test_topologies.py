"""Topologies: which links a message crosses, and what is said of topologies that there are not."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unisono.errors import ConfigError
from unisono.simulate import Topology, topology

SHAPES = (
    ("switch", 12),
    ("ring", 7),
    ("ring", 2),
    ("ring", 1),
    ("torus:3x4x2", 24),
    ("torus:5x1x2", 10),
    ("mesh:4x3", 12),
    ("fat-tree:3x4x2", 24),
    ("fat-tree:6", 6),
    ("hierarchy:3x4", 12),
)


def way(on: Topology, source: int, target: int) -> list[str]:
    routes = on.routes(np.array([source]), np.array([target]))
    return [on.link_name(int(link)) for link in routes.link]


def test_a_ring_goes_the_shorter_way_and_upwards_if_both_are_as_long() -> None:
    ring = topology("ring", 6)
    assert way(ring, 1, 3) == ["rank 1 +x", "rank 2 +x"]
    assert way(ring, 1, 5) == ["rank 1 -x", "rank 0 -x"]
    assert way(ring, 5, 2) == ["rank 5 +x", "rank 0 +x", "rank 1 +x"]


def test_a_torus_goes_along_one_dimension_after_the_other() -> None:
    torus = topology("torus:3x4", 12)
    assert way(torus, 0, 10) == ["rank 0 -x", "rank 8 +y", "rank 9 +y"]
    assert way(torus, 0, 3) == ["rank 0 -y"]


def test_a_mesh_does_not_wrap() -> None:
    assert way(topology("mesh:3x4", 12), 0, 3) == ["rank 0 +y", "rank 1 +y", "rank 2 +y"]
    assert way(topology("mesh:3x4", 12), 9, 0) == ["rank 9 -x", "rank 5 -x", "rank 1 -y"]


def test_a_tree_climbs_no_higher_than_it_must() -> None:
    tree = topology("fat-tree:2x2x2", 8)
    assert way(tree, 0, 1) == []
    assert way(tree, 0, 3) == ["leaf 0 up 1", "leaf 1 down 1"]
    assert way(tree, 0, 6) == ["leaf 0 up 0", "pod 0 up 2", "pod 1 down 2", "leaf 3 down 0"]
    assert way(topology("hierarchy:3x2", 6), 1, 4) == ["host 0 up", "host 2 down"]


@given(st.sampled_from(SHAPES), st.data())
def test_loads_and_crossings_are_those_of_the_routes(shape: tuple[str, int], data: st.DataObject) -> None:
    on = topology(*shape)
    ends = st.lists(st.integers(0, on.p - 1), min_size=9, max_size=9).map(np.array)
    source, target = data.draw(ends), data.draw(ends)
    amount = data.draw(st.lists(st.integers(0, 5), min_size=9, max_size=9).map(np.array)).astype(float)
    offset, link = on.routes(source, target)
    expected = np.zeros(on.links)
    marked = np.arange(on.links) % 3 == 0
    crossed = []
    for m in range(9):
        mine = link[offset[m] : offset[m + 1]]
        np.add.at(expected, mine, amount[m])
        crossed.append(bool(marked[mine].any()))
        assert len(mine) == on.hops(source, target)[m]
        assert len(set(mine)) == len(mine)
    assert np.allclose(on.load(source, target, amount), expected)
    assert on.crosses(source, target, marked).tolist() == crossed


@pytest.mark.parametrize(("on", "p"), SHAPES)
def test_every_link_has_a_name_of_its_own_and_a_place_in_a_group(on: str, p: int) -> None:
    joined = topology(on, p)
    names = {joined.link_name(link) for link in range(joined.links)}
    assert len(names) == joined.links == len(joined.beta())
    assert sorted(g.first for g in joined.groups) == [g.first for g in joined.groups]


@pytest.mark.parametrize(
    ("text", "p", "said"),
    [
        ("torus:16x16x15", 4096, "torus:16x16x15 has 3840 ranks, not 4096; the nearest is torus:16x16x16"),
        ("hierarchy:100x8", 64, "hierarchy:100x8 has 800 ranks, not 64; the nearest is hierarchy:8x8"),
        ("taurus:4x4", 16, "no topology is called 'taurus'; did you mean 'torus'?"),
        ("torus:4xfour", 16, "torus:4xfour is not a topology; write whole numbers from 1 up"),
        ("mesh:-4x-4", 16, "mesh:-4x-4 is not a topology"),
        ("hierarchy:2x2x4", 16, "a hierarchy is hosts times ranks; the nearest is hierarchy:4x4"),
        ("hierarchy:512x8", 4000, "the nearest is hierarchy:500x8"),
        ("hierarchy:512x9", 4096, "the nearest is hierarchy:512x8"),
        ("torus:32x3", 128, "the nearest is torus:32x4"),
        ("mesh:4x4", 7, "the nearest is mesh:1x7"),
        ("ring:5", 16, "a ring of 16 ranks is written 'ring'"),
        ("switch", 0, "at least 1 rank"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(text: str, p: int, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        topology(text, p)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_link_that_there_is_not_is_answered_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match="has no link 'hots 1 up'; the nearest is 'host 1 up'"):
        topology("hierarchy:4x2", 8).with_slow_link("hots 1 up", 2)
    with pytest.raises(ConfigError, match="only the ports"):
        topology("switch", 8).with_slow_link("x", 2)


@pytest.mark.parametrize("factor", [-1, 0, float("nan"), float("inf")])
def test_a_link_takes_longer_by_a_number_above_0(factor: float) -> None:
    with pytest.raises(ConfigError, match="host 1 up: a link takes x times as long, x above 0"):
        topology("hierarchy:4x2", 8).with_slow_link("host 1 up", factor)


def test_only_a_fat_tree_is_oversubscribed() -> None:
    with pytest.raises(ConfigError, match="from 1"):
        topology("fat-tree", 8, oversubscription=0.5)
    with pytest.raises(ConfigError, match="only a fat-tree"):
        topology("ring", 8, oversubscription=2)
