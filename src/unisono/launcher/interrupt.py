"""Signals to the launcher, as something to wait for among other things."""

from __future__ import annotations

import os
import signal
from types import FrameType, TracebackType
from typing import Self

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """While the context is open, signals that end us are collected instead; `arrived` is readable when there are any.

    A signal that is ignored, as SIGHUP is under nohup, stays ignored.
    """

    def __enter__(self) -> Self:
        self.arrived, self._noted = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._wakeup = signal.set_wakeup_fd(self._noted)
        caught = [number for number in ENDING if signal.getsignal(number) is not signal.SIG_IGN]
        self._handlers = {number: signal.signal(number, _do_nothing) for number in caught}
        # Where the children of our own parent are not waited for, ours still are.
        self._handlers[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup)
        os.close(self.arrived)
        os.close(self._noted)

    def take(self) -> list[signal.Signals]:
        """Those that have arrived since the last time, in order."""
        try:
            return [signal.Signals(number) for number in os.read(self.arrived, 512) if number in ENDING]
        except BlockingIOError:
            return []


def _do_nothing(number: int, frame: FrameType | None) -> None:
    pass  # the interpreter writes the number to the wake-up pipe
