"""The arithmetic of a comparison."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.bench.runs import measured, results_of

from unisono.bench.bandwidth import bandwidths, bus_factor
from unisono.bench.cells import Cell
from unisono.bench.ratios import paired_ratios, spread, standings
from unisono.bench.rounds import rotated

TIMES = st.floats(0.1, 1e6)
BY_ROUND = st.dictionaries(st.integers(0, 20), TIMES, min_size=1)


@given(st.lists(TIMES, min_size=1))
def test_no_more_than_a_quarter_of_the_figures_is_outside_of_a_quartile(values: list[float]) -> None:
    found = spread(values)
    assert min(values) <= found.lower <= found.median <= found.upper <= max(values)
    quarter = -(-(len(values) - 1) // 4)
    assert sum(value < found.lower for value in values) <= quarter
    assert sum(value > found.upper for value in values) <= quarter
    assert 2 * sum(value <= found.median for value in values) >= len(values)


@given(st.lists(TIMES, min_size=1), st.floats(0.01, 100))
def test_a_spread_scales_with_its_figures(values: list[float], factor: float) -> None:
    scaled = spread([factor * value for value in values])
    assert scaled == pytest.approx([factor * value for value in spread(values)])


@given(BY_ROUND, st.lists(BY_ROUND, min_size=1, max_size=4))
def test_a_ratio_compares_with_the_best_peer_of_its_own_round(
    ours: dict[int, float], peers: list[dict[int, float]]
) -> None:
    expected = []
    for number in sorted(ours):
        there = [times[number] for times in peers if number in times]
        if there:
            expected.append(ours[number] / min(there))
    assert paired_ratios(ours, peers) == expected


@given(BY_ROUND, BY_ROUND, BY_ROUND)
def test_another_peer_never_makes_us_look_faster(
    ours: dict[int, float], peer: dict[int, float], other: dict[int, float]
) -> None:
    alone = dict(zip(sorted(set(ours) & set(peer)), paired_ratios(ours, [peer]), strict=True))
    both = dict(zip(sorted(set(ours) & (set(peer) | set(other))), paired_ratios(ours, [peer, other]), strict=True))
    assert all(both[number] >= ratio for number, ratio in alone.items())


def test_a_machine_that_slows_down_does_not_change_paired_ratios() -> None:
    slowness = [1.0, 1.0, 10.0]
    figures = [measured("unisono", 2 * slow, round=i) for i, slow in enumerate(slowness)]
    figures += [measured("impi", 4 * slow, round=i) for i, slow in enumerate(slowness)]
    found = {one.contestant: one for one in standings(results_of(*figures))}
    assert found["unisono"].ratio == (0.5, 0.5, 0.5)
    assert found["impi"].ratio is None


@pytest.mark.parametrize(
    ("collective", "factor"),
    [
        ("allreduce", Fraction(3, 2)),
        ("allgather", Fraction(3, 4)),
        ("reduce_scatter", Fraction(3, 4)),
        ("scatter", Fraction(3, 4)),
        ("gather", Fraction(3, 4)),
        ("broadcast", Fraction(1)),
        ("reduce", Fraction(1)),
    ],
)
def test_bus_bandwidth_is_that_of_nccl_tests(collective: str, factor: Fraction) -> None:
    assert bus_factor(collective, 4) == factor
    algorithm, bus = bandwidths(Cell(collective, "oop", 4, 4_000_000), 1000.0)
    assert algorithm == pytest.approx(4.0)  # 4 MB in a millisecond
    assert bus == pytest.approx(4.0 * factor)


@given(st.lists(st.integers(), min_size=1, max_size=6, unique=True))
def test_everybody_is_first_equally_often(things: list[int]) -> None:
    orders = [rotated(things, number) for number in range(len(things))]
    assert sorted(order[0] for order in orders) == sorted(things)
    assert all(sorted(order) == sorted(things) for order in orders)
