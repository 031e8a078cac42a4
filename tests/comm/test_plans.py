"""Where calls of ranks that share memory work in their stages."""

import numpy as np
import pytest

from unisono.comm.plans import ROTATION, Windows, cut, turns

MB = 1 << 20


@pytest.mark.parametrize("ranks", [2, 3, 4, 8, 64])
@pytest.mark.parametrize("step", [64, 36 << 10, 288 << 10, MB])
def test_calls_go_over_no_more_memory_than_caches_hold_and_never_past_a_stage(ranks, step):
    count = turns(step, MB, ranks)
    assert count >= 1
    assert count * step <= MB
    assert count == 1 or 2 * ranks * count * step <= ROTATION


def test_two_ranks_go_over_all_of_their_stages():
    assert turns(128 << 10, MB, 2) == 8


def test_a_call_without_a_stage_has_one_place():
    assert turns(0, MB, 4) == 1


def test_a_block_that_would_fit_is_cut_where_ranks_are_to_work_at_the_same_time():
    sizes = [np.array([MB]), np.array([], np.int64)]
    assert cut(sizes, MB, MB) == Windows(MB, 1, tiny=False)
    assert cut(sizes, MB, MB, 128 << 10) == Windows(128 << 10, 8, tiny=False)
    assert cut(sizes, 100 << 10, MB, 128 << 10) == Windows(100 << 10, 1, tiny=False)
