"""Data-parallel training in plain NumPy: gradients are averaged layer by layer, while backward goes on.

    unisono run -n 4 examples/data_parallel_numpy.py

A network of three layers learns handwritten digits. Its backward pass tells a GradientSync of each gradient as soon as
it is there. The ranks' batches are of different sizes, as on machines of different speeds; gradients are weighted by
them. In the end rank 0 trains once more alone on the same micro-batches, and compares the bits.
"""

import sys
from collections.abc import Callable
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

import unisono
from unisono.train import GradientSync

Floats = NDArray[np.float32]
WIDTHS, STEPS, RATE = (64, 128, 64, 10), 300, np.float32(0.3)


def initial_parameters() -> dict[str, Floats]:
    rng = np.random.default_rng(0)
    parameters: dict[str, Floats] = {}
    for number, (a, b) in enumerate(pairwise(WIDTHS)):
        parameters[f"weights {number}"] = (rng.normal(size=(a, b)) / np.sqrt(a)).astype(np.float32)
        parameters[f"biases {number}"] = np.zeros(b, np.float32)
    return parameters


def forward(parameters: dict[str, Floats], x: Floats) -> list[Floats]:
    """What goes into each layer, and the scores."""
    values = [x]
    for number in range(len(WIDTHS) - 1):
        y = values[-1] @ parameters[f"weights {number}"] + parameters[f"biases {number}"]
        values.append(np.maximum(y, 0) if number < len(WIDTHS) - 2 else y)
    return values


def backward(
    parameters: dict[str, Floats], values: list[Floats], y: NDArray[np.int64], tell: Callable[[str, Floats], None]
) -> None:
    """Gradients of the mean cross-entropy, from the last layer to the first; each is told as soon as it is there."""
    scores = values[-1]
    probability = np.exp(scores - scores.max(axis=1, keepdims=True))
    probability /= probability.sum(axis=1, keepdims=True)
    probability[np.arange(len(y)), y] -= 1
    delta = probability / np.float32(len(y))
    for number in reversed(range(len(WIDTHS) - 1)):
        tell(f"biases {number}", delta.sum(axis=0))
        tell(f"weights {number}", values[number].T @ delta)
        delta = (delta @ parameters[f"weights {number}"].T) * (values[number] > 0)


def batches(step: int, ranks: int) -> list[NDArray[np.int64]]:
    """The rows of each rank: rank r has r + 2 shares."""
    rows = np.random.default_rng(step).choice(1500, 128, replace=False)
    ends = np.cumsum(np.arange(2, ranks + 2)) * len(rows) // sum(range(2, ranks + 2))
    return np.split(rows, ends[:-1])


def train_alone(x: Floats, y: NDArray[np.int64], ranks: int) -> dict[str, Floats]:
    """One process that computes the ranks' micro-batches one after the other."""
    parameters = initial_parameters()
    for step in range(STEPS):
        parts = batches(step, ranks)
        total: dict[str, Floats] = {}
        for rows in parts:
            weight = np.float32(len(rows) * ranks / sum(map(len, parts)))

            def add(name: str, gradient: Floats, weight: np.float32 = weight) -> None:
                total[name] = total[name] + gradient * weight if name in total else gradient * weight  # noqa: B023

            backward(parameters, forward(parameters, x[rows]), y[rows], add)
        for name, parameter in parameters.items():
            parameter -= RATE * (total[name] / np.float32(ranks))
    return parameters


def main() -> None:
    digits = load_digits()
    x, y = (digits.data / 16).astype(np.float32), digits.target
    parameters = initial_parameters()
    with unisono.init() as comm, GradientSync(parameters, comm, bucket_bytes=16384, reproducible=True) as sync:
        for step in range(STEPS):
            rows = batches(step, comm.size)[comm.rank]
            sync.begin(samples=len(rows))
            backward(parameters, forward(parameters, x[rows]), y[rows], sync.ready)
            for name, gradient in sync.wait().items():
                parameters[name] -= RATE * gradient
        if comm.rank == 0:
            right = (forward(parameters, x[1500:])[-1].argmax(axis=1) == y[1500:]).mean()
            alone = train_alone(x, y, comm.size)
            same = all(alone[name].tobytes() == parameters[name].tobytes() for name in parameters)
            print(f"accuracy on digits not seen before: {right:.1%}")
            print(f"training alone on the same micro-batches gives {'the same bits' if same else 'OTHER BITS'}")
            print(sync.report())
            print(f"of 128 samples, the ranks should take {sync.shares(128)}")
            if not same:
                sys.exit(1)


if __name__ == "__main__":
    main()
