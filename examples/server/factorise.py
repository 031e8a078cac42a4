"""Matrix factorisation of a planted low-rank matrix: the error goes down to the noise, and not below.

    unisono run -n 4 --servers 2 examples/server/factorise.py

The rows of both factors are rows of two sparse tables; each worker has a part of the known entries.
"""

from __future__ import annotations

import argparse

import numpy as np

from unisono.server import ParameterServers, connect, ssp

ROWS, COLUMNS, RANK, NOISE, KNOWN = 120, 100, 4, 0.1, 8000


def entries() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(5)
    left, right = random.standard_normal((ROWS, RANK)), random.standard_normal((COLUMNS, RANK))
    cells = random.permutation(ROWS * COLUMNS)[:KNOWN]
    i, j = np.divmod(cells, COLUMNS)
    return i, j, (left[i] * right[j]).sum(1) + NOISE * random.standard_normal(KNOWN)


def train(servers: ParameterServers, clocks: int) -> tuple[np.ndarray, np.ndarray]:
    i, j, values = entries()
    mine = np.arange(KNOWN) % servers.size == servers.rank
    i, j, values = i[mine], j[mine], values[mine]
    options = {"width": RANK, "init": "uniform", "scale": 0.5, "update": "adagrad", "lr": 0.2, "consistency": ssp(1)}
    left, right = servers.table("left", seed=1, **options), servers.table("right", seed=2, **options)
    for _ in range(clocks):
        u, v = left.pull(np.arange(ROWS)), right.pull(np.arange(COLUMNS))
        error = ((u[i] * v[j]).sum(1) - values)[:, None]
        left.push(i, error * v[j])  # keys repeat: they are added up
        right.push(j, error * u[i])
        left.clock()
        right.clock()
    meet = servers.counters("end")
    meet.clock()
    meet.pull()
    return left.pull(np.arange(ROWS), info=True)[0], right.pull(np.arange(COLUMNS), info=True)[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clocks", type=int, default=300)
    options = parser.parse_args()
    with connect() as servers:
        u, v = train(servers, options.clocks)
        if servers.rank:
            return
        i, j, values = entries()
        rmse = np.sqrt(np.mean(((u[i] * v[j]).sum(1) - values) ** 2))
        free = (ROWS + COLUMNS) * RANK - RANK**2  # parameters that can fit noise
        floor = NOISE * np.sqrt(1 - free / KNOWN)
        print(f"root mean square error {rmse:.4f}; the floor that the planted noise leaves is {floor:.4f}")
        assert 0.95 * floor <= rmse <= 1.1 * floor


if __name__ == "__main__":
    main()
