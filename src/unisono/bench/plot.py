"""Results as a picture."""

from __future__ import annotations

from pathlib import Path

from .results import Results


def draw(results: Results, path: Path) -> None:
    raise NotImplementedError
