"""Where ranks are started: on this host, unless somebody says otherwise."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from .rank import die_with


class Place(Protocol):
    """A way to start processes that are our children, wherever they are."""

    def starting(self, rank: int) -> AbstractContextManager[Callable[[], None]]:
        """The rank's process is started while this is open; it gets what that process calls before its program.

        By that call the process ends with us, too.
        """


class Here:
    """This host."""

    def __init__(self) -> None:
        self._bind = die_with(os.getpid())

    @contextmanager
    def starting(self, rank: int) -> Iterator[Callable[[], None]]:
        yield self._bind
