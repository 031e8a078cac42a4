"""Many conversations over sockets in one thread: each is a generator that yields what it waits for.

A conversation reads like blocking code, and is driven alone (`hold`) or among others (`Loop`). No threads: nothing is
left behind when start-up ends or is interrupted, and asyncio would not run inside a notebook's own event loop.
"""

from __future__ import annotations

import errno
import os
import socket
from collections import deque
from collections.abc import Callable, Container, Generator
from math import inf
from selectors import EVENT_READ, EVENT_WRITE, DefaultSelector
from time import monotonic
from types import TracebackType
from typing import Any, NamedTuple, TypeAlias, TypeVar

from .fork import in_a_forked_child

T = TypeVar("T")


class Wait(NamedTuple):
    """Until a socket is ready, or until a moment."""

    sock: socket.socket | None
    events: int = 0
    until: float = inf


Talk: TypeAlias = Generator[Wait, None, T]


def readable(sock: socket.socket) -> Wait:
    return Wait(sock, EVENT_READ)


def writable(sock: socket.socket) -> Wait:
    return Wait(sock, EVENT_WRITE)


def pause(seconds: float) -> Wait:
    return Wait(None, until=monotonic() + seconds)


def connect(sock: socket.socket, address: str | tuple[Any, ...]) -> Talk[None]:
    """Connects a socket that does not block; OSError says why not."""
    while (code := sock.connect_ex(address)) == errno.EAGAIN:  # a Unix socket whose queue is full
        yield pause(0.01)
    if code == errno.EINPROGRESS:
        yield writable(sock)
        code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    # Who tries a port that nobody listens on may be given that port as its own, and meet itself.
    if not code and sock.family != socket.AF_UNIX and sock.getsockname() == sock.getpeername():
        code = errno.ECONNREFUSED
    if code:
        raise OSError(code, os.strerror(code))


def within(seconds: float, talk: Talk[T]) -> Talk[T]:
    """A conversation that has so long; after that, TimeoutError is raised inside it."""
    until = monotonic() + seconds
    try:
        wait = next(talk)
        while True:
            yield wait._replace(until=min(wait.until, until))
            wait = talk.throw(TimeoutError()) if monotonic() >= until else next(talk)
    except StopIteration as end:
        result: T = end.value
        return result
    finally:
        talk.close()


class Task:
    """A conversation under way. After its deadline, TimeoutError is raised inside it."""

    def __init__(self, talk: Talk[None], deadline: float) -> None:
        self.talk = talk
        self.deadline = deadline
        self.wait = Wait(None)
        self.done = False


class Loop:
    """Takes conversations forward. What one of them raises ends `run`; closing the loop ends them all."""

    def __init__(self) -> None:
        self._selector = DefaultSelector()
        in_a_forked_child(self._selector, DefaultSelector.close)
        self._tasks: dict[Task, None] = {}
        self._parked: dict[socket.socket, tuple[Task, ...]] = {}  # who waits for it; what the selector has, but faster

    def __enter__(self) -> Loop:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def start(self, talk: Talk[None], deadline: float = inf) -> Task:
        """Takes its first step at once, so that its `finally` clauses hold from here on."""
        task = Task(talk, deadline)
        self._tasks[task] = None
        self._step(task)
        return task

    def run(self, finished: Callable[[], bool], deadline: float = inf) -> None:
        """Until `finished`; TimeoutError if that takes longer than to the deadline."""
        while not finished():
            if monotonic() >= deadline:
                raise TimeoutError
            self._turn(deadline)

    def cancel(self, task: Task) -> None:
        if task in self._tasks:
            self._forget(task)
            self._unpark(task)
            task.talk.close()

    def cancel_all(self, but: Container[Task] = ()) -> None:
        for task in [task for task in self._tasks if task not in but]:
            self.cancel(task)

    def close(self) -> None:
        self.cancel_all()
        self._selector.close()

    def linger(self, until: float, spin: float = 0.0) -> None:
        """Until somebody may go on, or that moment; for the first `spin` seconds without sleep. The only thing that may
        be done beside another thread."""
        asleep_from = min(monotonic() + spin, until)
        while spin and monotonic() < asleep_from:
            if self._selector.select(0.0):
                return
            os.sched_yield()
        self._selector.select(None if until == inf else max(0.0, until - monotonic()))

    def turn(self) -> None:
        """Takes those forward who may go on, and does not wait."""
        self._advance(0.0)

    def due(self) -> float:
        """When somebody has to go on, whatever comes."""
        return min((min(task.deadline, task.wait.until) for task in self._tasks), default=inf)

    def _turn(self, deadline: float) -> None:
        wake = min(self.due(), deadline)
        assert wake < inf or self._tasks, "nothing left to wait for"
        self._advance(None if wake == inf else max(0.0, wake - monotonic()))

    def _advance(self, seconds: float | None) -> None:
        ready: deque[Task] = deque()
        for key, events in self._selector.select(seconds):
            ready.extend(task for task in key.data if task.wait.events & events)
        now = monotonic()
        ready.extend(task for task in self._tasks if min(task.deadline, task.wait.until) <= now)
        for task in dict.fromkeys(ready):
            if task in self._tasks:
                self._unpark(task)
                self._step(task, late=task.deadline <= now)

    def _step(self, task: Task, *, late: bool = False) -> None:
        try:
            task.wait = task.talk.throw(TimeoutError()) if late else next(task.talk)
        except BaseException as error:
            self._forget(task)
            if not isinstance(error, StopIteration):
                raise
        else:
            if late:
                task.deadline = inf  # it has been told
            self._park(task)

    def _forget(self, task: Task) -> None:
        task.done = True
        self._tasks.pop(task, None)

    def _park(self, task: Task) -> None:
        sock, events, _ = task.wait
        if sock is None:
            return
        others = self._parked.get(sock, ())
        self._parked[sock] = tasks = (*others, task)
        if not others:
            self._selector.register(sock, events, tasks)
        else:
            for other in others:
                events |= other.wait.events
            self._selector.modify(sock, events, tasks)

    def _unpark(self, task: Task) -> None:
        sock = task.wait.sock
        task.wait = Wait(None)
        if sock is None:
            return
        rest = [x for x in self._parked.pop(sock) if x is not task]
        self._selector.unregister(sock)
        for other in rest:
            self._park(other)


def hold(talk: Talk[T], deadline: float = inf, *, beside: Callable[[Loop], object] = lambda loop: None) -> T:
    """One conversation to its end; TimeoutError after the deadline. What `beside` starts goes on meanwhile."""
    results: list[T] = []

    def keep() -> Talk[None]:
        results.append((yield from talk))

    with Loop() as loop:
        beside(loop)
        loop.start(keep(), deadline)
        loop.run(lambda: bool(results))
    return results[0]
