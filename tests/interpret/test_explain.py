"""The best number of segments: as many as gain something, and no more."""

import pytest

from unisono.interpret.explain import best_price, even_bytes
from unisono.interpret.machine import Link, Machine
from unisono.interpret.price import price
from unisono.schedule.catalog import find

FREE_START = Machine(Link(0.0, 1e-9), 0.0)


@pytest.mark.parametrize("name", ["double_binary_tree", "parameter_servers"])
def test_where_messages_start_for_nothing_segments_end_where_they_gain_nothing(name: str) -> None:
    algorithm = find("allreduce", name)
    found = best_price(algorithm, 8, 500_000_000, FREE_START)
    segments = found.schedule.parameters["segments"]
    assert segments < 10_000
    more = price(algorithm.schedule(8, segments=10 * segments), 500_000_000, FREE_START)
    assert more.time < found.time < 1.005 * more.time


def test_even_bytes_are_hardly_more_and_cost_hardly_more() -> None:
    algorithm, n = find("allreduce", "double_binary_tree"), 500_000_001
    even = best_price(algorithm, 7, n, Machine(), even=True)
    assert even.nbytes == even_bytes(even.schedule, n)
    assert n <= even.nbytes < n + even.schedule.blocks
    assert even.time == pytest.approx(price(even.schedule, n, Machine()).time, rel=1e-4)
