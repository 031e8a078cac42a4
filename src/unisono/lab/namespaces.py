"""Moves this thread, or the processes that it starts, into the namespaces of another process.

A pidfd of that process names them, so that a number that was given to somebody else meanwhile cannot mislead us. The
functions of os that do this are newer than the oldest Python that we support.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000
ALL_BUT_PID = CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWNET

_libc = ctypes.CDLL(None, use_errno=True)


@contextmanager
def in_network_of(pidfd: int) -> Iterator[None]:
    """This thread opens its sockets, and starts processes, in that process's network."""
    own = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        _join(pidfd, CLONE_NEWNET)
        try:
            yield
        finally:
            _join(own, CLONE_NEWNET)
    finally:
        os.close(own)


@contextmanager
def children_beside(pidfd: int) -> Iterator[None]:
    """Processes that this thread starts are in that process's PID namespace, and still our children.

    That is why ranks are not started by nsenter: it would stand between the launcher and the rank, and take the
    signals and the exit code. Meanwhile this thread can start no other thread.
    """
    with _own_pid_namespace_after():
        _join(pidfd, CLONE_NEWPID)
        yield


@contextmanager
def child_as_first() -> Iterator[None]:
    """The next process that this thread starts is number 1 of a new PID namespace."""
    with _own_pid_namespace_after():
        _check(_libc.unshare(CLONE_NEWPID))
        yield


def joiner(pidfd: int) -> Callable[[], None]:
    """For a process that was started beside that one to call: it joins all its other namespaces, at their root."""

    def join() -> None:
        _join(pidfd, ALL_BUT_PID)

    return join


@contextmanager
def _own_pid_namespace_after() -> Iterator[None]:
    own = os.pidfd_open(os.getpid())
    try:
        yield
    finally:
        _join(own, CLONE_NEWPID)
        os.close(own)


def _join(descriptor: int, kinds: int) -> None:
    _check(_libc.setns(descriptor, kinds))


def _check(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
