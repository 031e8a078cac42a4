"""A rule of a user's, which servers import by its name."""

import os

import numpy as np

from unisono.server import Rule


class Clipped(Rule):
    """Gradient descent whose gradients are clipped, and which counts what it clipped."""

    slots = 1

    def update(self, value: np.ndarray, gradient: np.ndarray, state: np.ndarray, step: int) -> None:
        limit = np.float32(self.options["limit"])
        state[0] += np.abs(gradient) > limit
        value -= np.float32(self.options["lr"]) * np.clip(gradient, -limit, limit)


class Stepping(Rule):
    """Its values are the number of the last update."""

    def update(self, value: np.ndarray, gradient: np.ndarray, state: np.ndarray, step: int) -> None:
        value[:] = step


class Unmade(Rule):
    def __init__(self, **options: float) -> None:
        raise KeyError("limit")

    def update(self, value: np.ndarray, gradient: np.ndarray, state: np.ndarray, step: int) -> None:
        pass


class Elsewhere(Rule):
    """Cannot be made by the second server."""

    def __init__(self, **options: float) -> None:
        if os.environ.get("UNISONO_SERVER") == "1":
            raise KeyError("not on server 1")
        super().__init__(**options)

    def update(self, value: np.ndarray, gradient: np.ndarray, state: np.ndarray, step: int) -> None:
        pass


class Idle(Rule):
    """Has no update."""


class Greedy(Clipped):
    slots = 9


class Broken(Rule):
    def update(self, value: np.ndarray, gradient: np.ndarray, state: np.ndarray, step: int) -> None:
        raise ZeroDivisionError("this rule is broken")
