"""How parallel it was, and what it took so long for."""

from __future__ import annotations

from dataclasses import dataclass

from .dependencies import Entry, dependencies, handovers

MOST_STEPS = 20


@dataclass(frozen=True)
class Report:
    """Of operations that are over. Times are seconds."""

    operations: int
    failed: int
    elapsed: float  # from the first beginning to the last end
    work: float  # of all operations together
    critical_path: list[Entry]  # those that took longest, one after the other
    critical: float  # how long that took, without waits
    threads: int  # that ran them

    @property
    def parallelism(self) -> float:
        """How many ran at once, on average."""
        return self.work / self.elapsed if self.elapsed else 0.0

    @property
    def possible(self) -> float:
        """How many could have, with threads enough."""
        return self.work / self.critical if self.critical else 0.0

    def __str__(self) -> str:
        lines = [
            f"{_count(self.operations, 'operation')}{f', {self.failed} of which failed' if self.failed else ''}, on "
            f"{_count(self.threads, 'thread')}",
            f"{self.work:.6f} s of work in {self.elapsed:.6f} s: parallelism {self.parallelism:.2f}",
            f"critical path {self.critical:.6f} s in {_count(len(self.critical_path), 'operation')}: "
            f"parallelism {self.possible:.2f} at most",
        ]
        longest = sorted(self.critical_path, key=_duration, reverse=True)[:MOST_STEPS]
        shown = [entry for entry in self.critical_path if entry in longest]
        lines += [f"  {_duration(entry) / 1e9:.6f} s  {entry.name}, pushed at {entry.where}" for entry in shown]
        if len(shown) < len(self.critical_path):
            lines.append(f"  and {len(self.critical_path) - len(shown)} shorter ones")
        return "\n".join(lines)


def report(entries: list[Entry]) -> Report:
    """Of those that are over; others are left out."""
    over = [entry for entry in entries if entry.ended and entry.begun]
    path = critical_path(over)
    begun, ended = min((e.begun for e in over), default=0), max((e.ended for e in over), default=0)
    return Report(
        operations=len(over),
        failed=sum(entry.failed for entry in over),
        elapsed=(ended - begun) / 1e9,
        work=sum(map(_duration, over)) / 1e9,
        critical_path=path,
        critical=sum(map(_duration, path)) / 1e9,
        threads=len({entry.thread for entry in over}),
    )


def critical_path(entries: list[Entry]) -> list[Entry]:
    """The chain of operations that took longest together, of which each waited for the one before it: for a variable,
    or for a lane."""
    by_serial = {entry.serial: entry for entry in entries}
    as_run = sorted(entries, key=lambda entry: (entry.begun, entry.ended, entry.serial))
    before: dict[int, list[int]] = {}
    for first, second in [edge[:2] for edge in dependencies(entries)] + handovers(as_run):
        before.setdefault(second, []).append(first)
    finish: dict[int, int] = {}
    came_from: dict[int, int | None] = {}
    for entry in as_run:  # what one waits for has ended before it begins
        last = max(before.get(entry.serial, ()), key=finish.__getitem__, default=None)
        came_from[entry.serial] = last
        finish[entry.serial] = _duration(entry) + (finish[last] if last is not None else 0)
    at = max(finish, key=finish.__getitem__, default=None)
    path = []
    while at is not None:
        path.append(by_serial[at])
        at = came_from[at]
    return path[::-1]


def _duration(entry: Entry) -> int:
    return entry.ended - entry.begun


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
