"""Ranks that are processes."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.train.numpy_ranks import killed_in_backward

import unisono
from unisono.errors import PeerLost


@pytest.mark.usefixtures("patient")
def test_a_rank_that_is_killed_in_backward_is_named_in_seconds(tmp_path: Path) -> None:
    with pytest.raises(PeerLost):
        unisono.launch(killed_in_backward, 3, str(tmp_path), timeout=60)
    assert_named_in_seconds(tmp_path)


def test_a_rank_that_is_killed_in_a_hook_of_its_model_is_named_in_seconds(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    from tests.train.torch_ranks import killed_in_a_hook

    with pytest.raises(PeerLost):
        unisono.launch(killed_in_a_hook, 3, str(tmp_path), timeout=120)
    assert_named_in_seconds(tmp_path)


def test_a_rank_that_ends_early_is_named_in_seconds(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    from tests.train.torch_ranks import ended_early

    unisono.launch(ended_early, 3, str(tmp_path), timeout=120)
    assert_named_in_seconds(tmp_path)


def assert_named_in_seconds(notes: Path) -> None:
    for rank in (0, 2):
        seconds, *words = (notes / str(rank)).read_text().splitlines()
        assert float(seconds) < 30
        assert "rank 1" in words[0]
        assert any(word.startswith("in step 2, when ") for word in words[1:])
