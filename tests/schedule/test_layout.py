"""Blocks cover the vector, in order, whatever their sizes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unisono.errors import ScheduleError
from unisono.schedule.ir import EVERY_BLOCK
from unisono.schedule.layout import EqualBlocks, UnequalBlocks


@given(st.integers(0, 10**6), st.integers(1, 200), st.sampled_from([1, 2, 4, 8]))
def test_equal_blocks_differ_by_one_element_and_cover_everything(elements: int, blocks: int, element: int) -> None:
    layout = EqualBlocks(elements * element, blocks, element)
    sizes = layout.nbytes(np.arange(blocks), np.ones(blocks, int))
    assert sizes.sum() == elements * element
    assert set(sizes) <= {elements // blocks * element, (elements // blocks + 1) * element}
    assert (np.diff(sizes) <= 0).all()


@given(st.lists(st.integers(0, 50), min_size=1, max_size=30), st.data())
def test_a_cyclic_run_has_the_bytes_of_its_blocks(sizes: list[int], data: st.DataObject) -> None:
    layout = UnequalBlocks.of(sizes)
    first = data.draw(st.integers(0, len(sizes) - 1))
    count = data.draw(st.integers(1, len(sizes)))
    assert layout.nbytes(first, count) == sum(sizes[(first + i) % len(sizes)] for i in range(count))
    assert layout.nbytes(first, EVERY_BLOCK) == sum(sizes)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=20).filter(any), st.integers(0, 10**5))
def test_shares_are_kept_to_within_an_element(shares: list[int], elements: int) -> None:
    layout = UnequalBlocks.in_shares(elements * 4, np.array(shares), element=4)
    sizes = layout.nbytes(np.arange(len(shares)), np.ones(len(shares), int))
    assert sizes.sum() == elements * 4
    assert (abs(sizes - elements * 4 * np.array(shares) / sum(shares)) <= 4).all()


def test_shares_that_are_all_zero_are_refused() -> None:
    with pytest.raises(ScheduleError, match="at least one is above 0"):
        UnequalBlocks.in_shares(100, np.array([0, 0]))
