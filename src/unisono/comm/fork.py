"""A forked child has copies of our objects, and nothing to do with their ranks.

What we have in Python lets go of its descriptors there: while a child keeps a connection open, the peers of its killed
parent would not hear of the death. It says nothing over them, and takes no lock, because the thread that holds it may
not exist in the child. The native core does the same by itself, also if a library forks (`native/base/fork.hpp`); what
is executed gets no descriptor of ours (all are close-on-exec).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn, TypeVar
from weakref import WeakKeyDictionary

from ..errors import ConfigError

T = TypeVar("T")

WHAT_TO_DO = (
    "make the calls there, or call unisono.init(rank=0, size=1) for one of this process's own; a worker that is "
    'started by "spawn" instead of "fork" has nothing of it'
)


class Process:
    """This process: another object after a fork."""

    def __init__(self) -> None:
        self.pid = os.getpid()


_process = Process()
_in_child: WeakKeyDictionary[Any, list[Callable[[Any], None]]] = WeakKeyDictionary()


def this_process() -> Process:
    """To compare with later: it is not the same object in a forked child."""
    return _process


def in_a_forked_child(owner: T, let_go: Callable[[T], None]) -> None:
    """Call this with the owner in every forked child, if the owner lives. It must not wait for anything."""
    _in_child.setdefault(owner, []).append(let_go)


class Refusal:
    """In the place of what makes the calls of a communicator, in a forked child: all but closing it is refused."""

    closed = False
    black_box = None

    def __init__(self, rank: int, process: Process) -> None:
        who = f"this process was forked from rank {rank} (pid {process.pid})"
        self._why = f"{who}: the communicator belongs to that process; {WHAT_TO_DO}"

    def close(self) -> None:
        """There is nothing to give up here."""

    def __getattr__(self, name: str) -> Any:
        return self._refuse()

    def _refuse(self) -> NoReturn:
        raise ConfigError(self._why)


def refuse_handle(what: str, process: Process) -> NoReturn:
    raise ConfigError(
        f"this process was forked from the one that started this {what} (pid {process.pid}): only that one can wait "
        "for it; wait before the fork, or send the result here"
    )


def _let_go_of_everything() -> None:
    global _process
    _process = Process()
    for owner, duties in list(_in_child.items()):
        for let_go in duties:
            with suppress(OSError):  # closed already
                let_go(owner)
    _in_child.clear()


os.register_at_fork(after_in_child=_let_go_of_everything)
