"""The numbers, none below 0, that explain what was measured best."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
SWEEPS = 3000
TURNS = 5


def fit(work: Floats, seconds: Floats) -> Floats:
    """x ≥ 0 for which work·x is nearest to the seconds, in proportion to them.

    Errors count by their size and not by its square, so that one strange measurement among many changes little:
    least squares, again and again, in which cells that fit badly count less.
    """
    rows = work / seconds[:, None]
    weights = np.ones(len(rows))
    x = np.zeros(rows.shape[1])
    for _ in range(TURNS):
        x = _least_squares(rows * weights[:, None], weights, x)
        weights = 1 / np.sqrt(np.maximum(np.abs(rows @ x - 1), 0.05))
    return x


def _least_squares(rows: Floats, target: Floats, x: Floats) -> Floats:
    """Coordinate descent; every step has a closed form, and stays above 0."""
    scale = np.linalg.norm(rows, axis=0)
    scale[scale == 0] = 1.0
    rows = rows / scale
    gram, aim = rows.T @ rows, rows.T @ target
    x = x * scale
    for _ in range(SWEEPS):
        before = x.copy()
        for k in range(len(x)):
            if gram[k, k] > 0:
                x[k] = max(0.0, x[k] + (aim[k] - gram[k] @ x) / gram[k, k])
        if np.allclose(x, before, rtol=1e-7, atol=1e-12):
            break
    return np.asarray(x / scale)
