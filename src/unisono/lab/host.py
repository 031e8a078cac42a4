"""The process that keeps a host alive, known by its number and the time when it started."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from ..errors import ConfigError, DeadlineExceeded

SECONDS_TO_END = 20
PF_EXITING = 4  # among a process's flags


@dataclass(frozen=True)
class Holder:
    """Process 1 of a PID namespace. Its number alone would not do: it may be another process's by now."""

    name: str
    pid: int
    started: int  # in ticks since the machine booted

    @contextmanager
    def process(self) -> Iterator[int]:
        """A pidfd of it."""
        try:
            pidfd = os.pidfd_open(self.pid)
        except ProcessLookupError:
            raise self._gone() from None
        try:
            if start_of(self.pid) != self.started:
                raise self._gone()
            yield pidfd
        finally:
            os.close(pidfd)

    @property
    def alive(self) -> bool:
        """Whether its host can be used; one that is about to end takes a while, and accepts no more processes."""
        fields = _fields_of(self.pid)
        return fields is not None and int(fields[19]) == self.started and not int(fields[6]) & PF_EXITING

    def _gone(self) -> ConfigError:
        return ConfigError(f"{self.name} is gone: the process that kept it, {self.pid}, has ended")


@dataclass(frozen=True)
class Host(Holder):
    """A host has an address, and a rate in bits per second if its link is limited."""

    address: str
    rate: int | None

    @property
    def counters(self) -> tuple[int, int]:
        """Bytes that went out of its interface and came in, with the headers of Ethernet, IP and TCP."""
        with self.process():
            lines = Path(f"/proc/{self.pid}/net/dev").read_text().splitlines()
        fields = next(line for line in lines if line.split(":")[0].strip() == "eth0").split(":")[1].split()
        return int(fields[8]), int(fields[0])


def start_of(pid: int) -> int | None:
    """When the process started; None if it has ended."""
    fields = _fields_of(pid)
    return int(fields[19]) if fields else None


def _fields_of(pid: int) -> list[str] | None:
    """What follows its name in /proc/…/stat; None if it has ended, buried or not."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in "ZX" else fields


def end_all(holders: Iterable[Holder]) -> None:
    """Kill them, and with them all processes of their hosts; returns when these have ended.

    First all are killed, then waited for: a host ends when its ranks are buried, and the launcher buries them when
    those on other hosts have ended, too.
    """
    with ExitStack() as opened:
        killed = []
        for holder in holders:
            with suppress(ConfigError):
                pidfd = opened.enter_context(holder.process())
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
                killed.append((holder, pidfd))
        deadline = time.monotonic() + SECONDS_TO_END
        for holder, pidfd in killed:
            if not _ended(pidfd, deadline):
                raise DeadlineExceeded(f"{holder.name} (pid {holder.pid}) did not end in {SECONDS_TO_END} s")


def _ended(pidfd: int, deadline: float) -> bool:
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(max(0.0, deadline - time.monotonic()) * 1000))
