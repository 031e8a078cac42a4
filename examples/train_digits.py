"""Data-parallel training in plain NumPy: a small network learns handwritten digits.

    unisono run -n 4 examples/train_digits.py

Every rank computes the gradient of its part of each batch; an allreduce averages them, so that all ranks take the same
step. At the end rank 0 trains once more alone, on the same micro-batches, and compares.
"""

import sys
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

import unisono

Floats = NDArray[np.float64]
HIDDEN, CLASSES, BATCH, EPOCHS, RATE = 64, 10, 128, 12, 0.5


def initial_parameters(features: int) -> list[Floats]:
    rng = np.random.default_rng(0)
    shapes = ((features, HIDDEN), (HIDDEN,), (HIDDEN, CLASSES), (CLASSES,))
    return [rng.normal(0, 0.1, shape) for shape in shapes]


def scores(parameters: list[Floats], x: Floats) -> tuple[Floats, Floats]:
    w1, b1, w2, b2 = parameters
    hidden = np.maximum(x @ w1 + b1, 0)
    return hidden, hidden @ w2 + b2


def gradient(parameters: list[Floats], x: Floats, y: NDArray[np.int64]) -> Floats:
    """Of the mean cross-entropy, all parameters in one vector."""
    hidden, logits = scores(parameters, x)
    probability = np.exp(logits - logits.max(axis=1, keepdims=True))
    probability /= probability.sum(axis=1, keepdims=True)
    probability[np.arange(len(y)), y] -= 1
    delta = probability / len(y)
    delta_hidden = (delta @ parameters[2].T) * (hidden > 0)
    parts = (x.T @ delta_hidden, delta_hidden.sum(axis=0), hidden.T @ delta, delta.sum(axis=0))
    return np.concatenate([part.ravel() for part in parts])


def train(
    x: Floats, y: NDArray[np.int64], average: Callable[[list[Floats], NDArray[np.int64]], Floats]
) -> list[Floats]:
    """Plain SGD; ``average(parameters, rows)`` is the mean gradient of a batch."""
    parameters = initial_parameters(x.shape[1])
    for epoch in range(EPOCHS):
        order = np.random.default_rng(epoch).permutation(len(x))
        for start in range(0, len(x) - BATCH + 1, BATCH):
            step = average(parameters, order[start : start + BATCH])
            for parameter in parameters:
                parameter -= RATE * step[: parameter.size].reshape(parameter.shape)
                step = step[parameter.size :]
    return parameters


def main() -> None:
    comm = unisono.init()
    digits = load_digits()
    x, y = digits.data / 16, digits.target
    seen, unseen = slice(0, 1500), slice(1500, None)
    waiting = 0.0

    def over_the_ranks(parameters: list[Floats], rows: NDArray[np.int64]) -> Floats:
        nonlocal waiting
        mine = np.array_split(rows, comm.size)[comm.rank]
        own = gradient(parameters, x[mine], y[mine])
        start = time.perf_counter()
        comm.allreduce(own, op="avg", out=own)
        waiting += time.perf_counter() - start
        return own

    def alone(parameters: list[Floats], rows: NDArray[np.int64]) -> Floats:
        parts = [gradient(parameters, x[part], y[part]) for part in np.array_split(rows, comm.size)]
        return np.mean(parts, axis=0)

    start = time.perf_counter()
    parameters = train(x[seen], y[seen], over_the_ranks)
    total = time.perf_counter() - start
    largest = comm.allreduce(np.concatenate([p.ravel() for p in parameters]), op="max")
    if comm.rank == 0:
        right = (scores(parameters, x[unseen])[1].argmax(axis=1) == y[unseen]).mean()
        reference = np.concatenate([p.ravel() for p in train(x[seen], y[seen], alone)])
        used = ", ".join(f"{name} ({times}×)" for name, times in comm.stats()["algorithms"].items())
        print(f"{comm.size} ranks, {EPOCHS} epochs in {total:.2f} s, of which {waiting:.2f} s in communication")
        print(f"accuracy on digits not seen before: {right:.1%}")
        print(f"largest difference to training alone on the same micro-batches: {abs(largest - reference).max():.1e}")
        print(f"algorithms: {used}")
    comm.close()


if __name__ == "__main__":
    sys.exit(main())
