"""Calls under way, as torch wants them: ``work.wait()``, and futures that a thread completes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from datetime import timedelta
from queue import SimpleQueue
from typing import Any

import torch
from torch import Tensor
from torch.distributed import Work
from torch.futures import Future

from ..comm.handle import Handle
from ..errors import DeadlineExceeded

FOR_EVER = timedelta(0)
SECONDS_TO_COMPLETE = 60.0
HINT = "(the timeout of a call is what it says itself, or what its process group was made with)"


class Done(Work):
    """A call that has been made."""

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        super().__init__()
        self._tensors = list(tensors)

    def wait(self, timeout: timedelta = FOR_EVER) -> bool:
        return True

    def is_completed(self) -> bool:
        return True

    def is_success(self) -> bool:
        return True

    def exception(self) -> None:
        return None

    def synchronize(self) -> None:
        pass

    def result(self) -> list[Tensor]:
        return self._tensors

    def get_future(self) -> Any:
        future: Any = Future()
        future.set_result(self._tensors)
        return future


class Started(Work):
    """Calls of one group that go on by themselves."""

    def __init__(
        self,
        handles: Sequence[Handle],
        tensors: Sequence[Tensor],
        finish: Callable[[], None] | None,
        completions: Completions,
    ) -> None:
        super().__init__()
        self._handles, self._tensors, self._finish = handles, list(tensors), finish
        self._completions = completions
        self._finishing = threading.Lock()
        self._future: Any = None

    @classmethod
    def together(cls, works: Sequence[Started], tensors: Sequence[Tensor], completions: Completions) -> Started:
        """One work for several."""

        def finish() -> None:
            for work in works:
                work.wait()

        return cls([handle for work in works for handle in work._handles], tensors, finish, completions)

    def wait(self, timeout: timedelta = FOR_EVER) -> bool:
        seconds = timeout.total_seconds() if timeout > FOR_EVER else None
        return self._wait_for(lambda handle: handle.wait(seconds))

    def _wait_for(self, wait: Callable[[Handle], object]) -> bool:
        try:
            for handle in self._handles:
                wait(handle)
        except DeadlineExceeded as error:
            raise in_words_of_torch(error) from None
        if self._finish is not None:
            with self._finishing:
                finish, self._finish = self._finish, None
                if finish is not None:
                    finish()
        return True

    def is_completed(self) -> bool:
        return all(handle.done() for handle in self._handles)

    def is_success(self) -> bool:
        return self.is_completed() and self.exception() is None

    def exception(self) -> Exception | None:
        """What it failed of, if it is through and failed."""
        if self.is_completed():
            try:
                self.wait()
            except Exception as error:
                return error
        return None

    def synchronize(self) -> None:
        self.wait()

    def result(self) -> list[Tensor]:
        self.wait()
        return self._tensors

    def get_future(self) -> Any:
        """Has the list of the call's tensors as its value."""
        if self._future is None:
            self._future = Future()
            self._completions.add(self)
            if torch._C._current_graph_task_id() >= 0:
                _wait_at_the_end_of_backward(self)
        return self._future

    def complete(self) -> None:
        """Wait, beside who computes, and tell the future."""
        try:
            self._wait_for(Handle.wait_in_background)
        except Exception as error:
            self._future.set_exception(error)
        else:
            self._future.set_result(self._tensors)


def in_words_of_torch(error: DeadlineExceeded) -> DeadlineExceeded:
    """torch has another word for a deadline."""
    if HINT not in str(error):
        error.args = (f"{error} {HINT}",)
    return error


def _wait_at_the_end_of_backward(work: Started) -> None:
    """DDP's reducer waits for the future in C++, where the type of an error is lost. It does so at the end of backward,
    after what is queued here: so the error comes out of backward() as it is."""
    torch.autograd.Variable._execution_engine.queue_callback(work.wait)


class Completions:
    """The thread of one group that completes futures. Calls of a group end in the order in which they were made."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[Started | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()

    def add(self, work: Started) -> None:
        """Complete its future when it is through. Who asks for it inside of a callback may wait for it there, so that
        another thread goes on."""
        with self._starting:
            if self._thread is None or self._thread is threading.current_thread():
                self._thread = threading.Thread(target=self._complete_all, name="unisono-futures", daemon=True)
                self._thread.start()
        self._queue.put(work)

    def close(self) -> None:
        """When all futures are complete; after a while, without those whose callbacks do not end."""
        with self._starting:
            thread, self._thread = self._thread, None
        if thread and thread is not threading.current_thread():
            self._queue.put(None)
            thread.join(SECONDS_TO_COMPLETE)

    def _complete_all(self) -> None:
        queue, own = self._queue, threading.current_thread()
        while work := queue.get():
            work.complete()
            del work  # and the tensors that it knows, before the next one comes
            if self._thread not in (own, None):
                return
