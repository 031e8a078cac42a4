"""The processes of a job on this host: each leads a process group, and all of them end with their owner."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

PR_SET_PDEATHSIG = 1
GUARDIAN = Path(__file__).with_name("guardian.py")


class Rank:
    """One rank's process, unreaped until the job is over.

    As long as it is not reaped, its number is not given to another process, so that signalling its group is safe
    even after it has ended.
    """

    def __init__(self, number: int, pid: int, reap: Callable[[], object]) -> None:
        self.number = number
        self.pid = pid
        self.returncode: int | None = None  # as subprocess has it: -signal where one killed it
        self._reap = reap
        self.ended = os.pidfd_open(pid)  # becomes readable when the process ends

    def look(self) -> None:
        """Note how it ended, if it did."""
        flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
        if self.returncode is None and (state := os.waitid(os.P_PID, self.pid, flags)):
            self.returncode = state.si_status if state.si_code == os.CLD_EXITED else -state.si_status

    def signal(self, number: int) -> None:
        """To the rank and to the processes that it started."""
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:  # forked a moment ago, not yet the leader of its group
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def bury(self) -> None:
        self._reap()
        os.close(self.ended)

    def __str__(self) -> str:
        return f"rank {self.number} (pid {self.pid})"


class Crew:
    """All ranks of this host. Leaving the context kills what is left of them, and of what they started."""

    def __init__(self) -> None:
        self.ranks: list[Rank] = []
        self.others: list[Rank] = []
        # Own session: Ctrl-C in the terminal is not meant for it. -I -S: it needs nothing, and starts in 10 ms.
        self._guardian = subprocess.Popen(
            [sys.executable, "-I", "-S", GUARDIAN],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        for rank in (*self.ranks, *self.others):
            rank.signal(signal.SIGKILL)
        for rank in (*self.ranks, *self.others):
            rank.bury()
        self._guardian.kill()  # only now: it is there for the case that we do not come this far
        assert self._guardian.stdin is not None
        self._guardian.stdin.close()
        self._guardian.wait()

    def add(self, number: int, pid: int, reap: Callable[[], object], kind: type[Rank] = Rank) -> Rank:
        """Of another kind than a rank, it ends with the others, and is not waited for."""
        try:
            rank = kind(number, pid, reap)
        except BaseException:
            os.kill(pid, signal.SIGKILL)
            reap()
            raise
        (self.ranks if kind is Rank else self.others).append(rank)
        with suppress(OSError):  # a guardian that was killed is missed only if we are killed too
            os.write(self.guardian_pipe, b"%d\n" % pid)
        return rank

    @property
    def guardian_pipe(self) -> int:
        """Its end is what the guardian waits for: a forked rank must close it."""
        assert self._guardian.stdin is not None
        return self._guardian.stdin.fileno()

    @property
    def running(self) -> list[Rank]:
        return [rank for rank in self.ranks if rank.returncode is None]

    def signal(self, number: int) -> None:
        for rank in self.ranks:
            rank.signal(number)


def die_with(parent: int) -> Callable[[], None]:
    """For a new process to call: it will be killed when `parent`, or the thread that started it, ends.

    The guardian does that too and reaches further, but it can be killed along with the launcher; the kernel cannot.
    """
    prctl = ctypes.CDLL(None).prctl  # found here: after a fork nothing may be loaded

    def bind() -> None:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it ended before we asked
            os._exit(128 + signal.SIGKILL)

    return bind


def describe_end(returncode: int) -> str:
    """``failed with exit code 3``, ``was killed by SIGSEGV``."""
    if returncode >= 0:
        return f"failed with exit code {returncode}"
    try:
        return f"was killed by {signal.Signals(-returncode).name}"
    except ValueError:  # real-time signals have no name
        return f"was killed by signal {-returncode}"


def exit_code(returncode: int) -> int:
    """As a shell has it."""
    return returncode if returncode >= 0 else 128 - returncode
