"""A rule of a user's, which servers import by its name."""

import numpy as np

from unisono.server import Rule


class Clipped(Rule):
    """Gradient descent whose gradients are clipped, and which counts what it clipped."""

    slots = 1

    def update(self, value: np.ndarray, gradient: np.ndarray, state: np.ndarray, step: int) -> None:
        limit = np.float32(self.options["limit"])
        state[0] += np.abs(gradient) > limit
        value -= np.float32(self.options["lr"]) * np.clip(gradient, -limit, limit)


class Broken(Rule):
    def update(self, value: np.ndarray, gradient: np.ndarray, state: np.ndarray, step: int) -> None:
        raise ZeroDivisionError("this rule is broken")
