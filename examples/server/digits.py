"""A multi-layer perceptron on scikit-learn's digits; its layers are tables.

unisono run -n 4 --servers 2 examples/server/digits.py
"""

from __future__ import annotations

import argparse

import numpy as np
from sklearn.datasets import load_digits

from unisono.server import ParameterServers, connect, ssp

HIDDEN, TEST = 32, 297


def forward(x: np.ndarray, layers: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    hidden = np.maximum(np.c_[x, np.ones(len(x))] @ layers[0], 0)
    scores = np.c_[hidden, np.ones(len(x))] @ layers[1]
    p = np.exp(scores - scores.max(1, keepdims=True))
    return hidden, p / p.sum(1, keepdims=True)


def gradients(x: np.ndarray, y: np.ndarray, layers: list[np.ndarray]) -> list[np.ndarray]:
    hidden, p = forward(x, layers)
    p[np.arange(len(y)), y] -= 1
    p /= len(y)
    back = (p @ layers[1][:-1].T) * (hidden > 0)
    return [np.c_[x, np.ones(len(x))].T @ back, np.c_[hidden, np.ones(len(x))].T @ p]


def train(servers: ParameterServers, clocks: int) -> float:
    data = load_digits()
    x, y = (data.data / 16).astype(np.float32), data.target
    options = {"update": "adam", "lr": 0.005, "consistency": ssp(2), "init": "uniform"}
    tables = [
        servers.table("first", (65, HIDDEN), scale=0.2, seed=1, **options),
        servers.table("second", (HIDDEN + 1, 10), scale=0.2, seed=2, **options),
    ]
    random = np.random.default_rng(servers.rank)
    for _ in range(clocks):
        layers = [table.pull() for table in tables]
        batch = random.integers(TEST, len(x), 64)
        for table, gradient in zip(tables, gradients(x[batch], y[batch], layers), strict=True):
            table.push(gradient)
            table.clock()
    layers = [table.pull(info=True)[0] for table in tables]
    return float((forward(x[:TEST], layers)[1].argmax(1) == y[:TEST]).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clocks", type=int, default=300)
    options = parser.parse_args()
    with connect() as servers:
        accuracy = train(servers, options.clocks)
        print(f"worker {servers.rank}: {100 * accuracy:.1f} % of digits that nobody trained on are right")
        assert accuracy >= 0.9
        if servers.rank == 0:
            print(servers.report())


if __name__ == "__main__":
    main()
