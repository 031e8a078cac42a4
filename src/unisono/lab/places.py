"""Where the launcher starts the ranks of a lab: its own children, but in the namespaces of their hosts."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import Self

from ..launcher.rank import die_with
from .host import Host
from .namespaces import children_beside, joiner

NOT_STARTED = 126  # as a shell says of a command that cannot be executed
OUTSIDE = 0  # how a parent is numbered that is not in one's PID namespace


class Places:
    """The hosts of a job, held for as long as ranks are started."""

    def __init__(self, hosts: list[Host]) -> None:
        self._hosts = hosts  # by rank
        self._pidfds: dict[str, int] = {}
        self._open = ExitStack()
        self._bind = die_with(OUTSIDE)
        self._directory = os.getcwd()

    def __enter__(self) -> Self:
        with ExitStack() as opened:
            for host in self._hosts:
                if host.name not in self._pidfds:
                    self._pidfds[host.name] = opened.enter_context(host.process())
            self._open = opened.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._open.close()

    @contextmanager
    def starting(self, rank: int) -> Iterator[Callable[[], None]]:
        """What the launcher asks of a place: see Place."""
        name = self._hosts[rank].name
        join = joiner(self._pidfds[name])

        def move_in() -> None:
            try:
                join()
                os.chdir(self._directory)  # who joins is at the root
            except OSError as error:
                os.write(2, f"cannot enter {name}: {error.strerror}\n".encode())
                os._exit(NOT_STARTED)
            self._bind()

        with children_beside(self._pidfds[name]):
            yield move_in
