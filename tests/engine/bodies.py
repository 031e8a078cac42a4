"""What tests push."""

import threading
from collections.abc import Callable


def fail(text: str = "bad") -> Callable[[], None]:
    def body() -> None:
        raise ValueError(text)

    return body


class Gate:
    """An operation that runs until it is opened."""

    def __init__(self) -> None:
        self.entered, self._open = threading.Event(), threading.Event()

    def __call__(self) -> None:
        self.entered.set()
        assert self._open.wait(20)

    def open(self) -> None:
        self._open.set()
