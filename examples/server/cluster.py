"""k-means and EM for a mixture of Gaussians under bsp: in every iteration what one process computes.

    unisono run -n 3 --servers 2 examples/server/cluster.py

Workers push the sums of their own points; every one makes the new centres from the sums of all. Sums of whole clusters
are added in the order of the ranks, so that one process that does the same has the same bits.
"""

from __future__ import annotations

import argparse

import numpy as np
from sklearn.datasets import make_blobs

from unisono.server import ParameterServers, bsp, connect

CLUSTERS, FEATURES = 5, 3


def points() -> np.ndarray:
    data, _ = make_blobs(1500, FEATURES, centers=CLUSTERS, cluster_std=1.5, random_state=4)
    return np.asarray(data)


def kmeans_sums(x: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """Of each cluster: the sum of its points, their number, and their squared distances."""
    distances = ((x[:, None] - centres) ** 2).sum(2)
    nearest = distances.argmin(1)
    sums = np.zeros((CLUSTERS, FEATURES + 2))
    for k in range(CLUSTERS):
        own = nearest == k
        sums[k] = [*x[own].sum(0), own.sum(), distances[own, k].sum()]
    return sums


def kmeans_step(sums: np.ndarray, centres: np.ndarray) -> tuple[np.ndarray, float]:
    counts = np.maximum(sums[:, -2:-1], 1)
    return np.where(sums[:, -2:-1] > 0, sums[:, :FEATURES] / counts, centres), float(sums[:, -1].sum())


def em_sums(x: np.ndarray, state: np.ndarray) -> np.ndarray:
    """Of each component (mean, variance, weight): weighted points, squares, weights, log-likelihood."""
    mean, variance, weight = state[:, :FEATURES], state[:, FEATURES], state[:, FEATURES + 1]
    squares = ((x[:, None] - mean) ** 2).sum(2)
    log = np.log(weight) - squares / (2 * variance) - FEATURES / 2 * np.log(2 * np.pi * variance)
    top = log.max(1, keepdims=True)
    total = top + np.log(np.exp(log - top).sum(1, keepdims=True))
    share = np.exp(log - total)
    sums = np.zeros((CLUSTERS, FEATURES + 3))
    for k in range(CLUSTERS):
        sums[k] = [*(share[:, k, None] * x).sum(0), (share[:, k] * squares[:, k]).sum(), share[:, k].sum(), 0]
    sums[0, -1] = total.sum()
    return sums


def em_step(sums: np.ndarray, state: np.ndarray) -> tuple[np.ndarray, float]:
    weight = sums[:, -2:-1]
    variance = sums[:, -3:-2] / weight / FEATURES
    return np.c_[sums[:, :FEATURES] / weight, variance, weight / weight.sum()], float(sums[0, -1])


def iterate(method: str, servers: ParameterServers, iterations: int) -> list[float]:
    """Inertia, or log-likelihood, of each iteration, by workers together."""
    mine = np.array_split(points(), servers.size)[servers.rank]
    sums_of, step, state = METHODS[method]
    table = servers.table(method, sums_of(mine, state).shape, dtype=np.float64, consistency=bsp)
    values, before = [], np.zeros(table.shape)
    for _ in range(iterations):
        table.push(sums_of(mine, state) - (before if servers.rank == 0 else 0))  # takes the last sums out again
        table.clock()
        before = table.pull()
        state, value = step(before, state)
        values.append(value)
    return values


def iterate_alone(method: str, size: int, iterations: int) -> list[float]:
    """The same as one process, which adds in the order of the ranks."""
    parts = np.array_split(points(), size)
    sums_of, step, state = METHODS[method]
    values, table = [], np.zeros(sums_of(parts[0], state).shape)
    for _ in range(iterations):
        total = sums_of(parts[0], state) - table
        for part in parts[1:]:
            total += sums_of(part, state) - 0
        table += total
        state, value = step(table, state)
        values.append(value)
    return values


FIRST = points()[:CLUSTERS]
METHODS = {
    "k-means": (kmeans_sums, kmeans_step, FIRST),
    "EM": (em_sums, em_step, np.c_[FIRST, np.full(CLUSTERS, 4.0), np.full(CLUSTERS, 1 / CLUSTERS)]),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--iterations", type=int, default=20)
    iterations = parser.parse_args().iterations
    with connect() as servers:
        for method in METHODS:
            together = iterate(method, servers, iterations)
            alone = iterate_alone(method, servers.size, iterations)
            assert together == alone, (together, alone)
            if servers.rank == 0:
                print(
                    f"{method}: {iterations} iterations, equal to one process: {together[0]:.2f} … {together[-1]:.2f}"
                )


if __name__ == "__main__":
    main()
