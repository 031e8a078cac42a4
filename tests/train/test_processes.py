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
    for rank in (0, 2):
        seconds, *words = (tmp_path / str(rank)).read_text().splitlines()
        assert float(seconds) < 30
        assert "rank 1" in words[0]
        assert any(word.startswith("in step 2, when ") for word in words[1:])
