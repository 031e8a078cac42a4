"""Calls that run by themselves, on a thread of the native core. Their arrays have to live until they are through."""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

if TYPE_CHECKING:
    from .._native import Executor, Ticket

SECONDS_TO_STOP = 5.0

FEW = 8

_kept: deque[tuple[Ticket, Any]] = deque()
_keeping = threading.Lock()
_executors: WeakSet[Executor] = WeakSet()


def keep(ticket: Ticket, arrays: Any) -> None:
    """Hold on to the arrays of a call, also if everybody else forgets them and the communicator."""
    global _kept
    with _keeping:
        while _kept and _kept[0][0].done():  # mostly all: calls of one communicator end in their order
            _kept.popleft()
        if len(_kept) >= FEW:
            _kept = deque(each for each in _kept if not each[0].done())
        _kept.append((ticket, arrays))


def _forget_all() -> None:
    """In a forked child: the calls go on in the parent, and so does a thread that has the lock."""
    global _keeping
    _keeping = threading.Lock()
    _kept.clear()
    _executors.clear()


os.register_at_fork(after_in_child=_forget_all)


def stop_at_exit(executor: Executor) -> None:
    """The arrays go with the interpreter, so that no call may be under way then."""
    _executors.add(executor)


def _is_foreign_daemon(thread: threading.Thread) -> bool:
    return thread.daemon and not thread.name.startswith("unisono")


_exiting = threading.Event()


def go_no_further_at_exit() -> None:
    """For a daemon thread whose call was stopped because the interpreter ends: nobody is left to hear of it."""
    while _exiting.is_set() and threading.current_thread() is not threading.main_thread():
        time.sleep(3600)


@atexit.register
def _stop_all() -> None:
    _exiting.set()
    executors = list(_executors)
    for executor in executors:
        executor.stop(0)
    for executor in executors:
        executor.stop(SECONDS_TO_STOP)
    if executors and any(map(_is_foreign_daemon, threading.enumerate())):
        from .._native import expect_leaks

        expect_leaks()  # what daemon threads have is never let go of
