"""The dumps of one communicator, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .dump import WORLD, Dump
from .record import Record
from .stacks import Frame, innermost


class Scene(NamedTuple):
    """Ranks are those of the job."""

    communicator: str
    ranks: list[int]
    dumps: dict[int, Dump]  # by rank

    @property
    def missing(self) -> list[int]:
        return [rank for rank in self.ranks if rank not in self.dumps]

    @property
    def began(self) -> float:
        """When the first of its ranks learned of a failure."""
        return min(dump.clock for dump in self.dumps.values())

    def last_seen(self, rank: int) -> Record | None:
        """The newest call of all to which this rank came, as another one saw it."""
        seen = [
            call
            for dump in self.dumps.values()
            for call in dump.calls
            if call.sequence is not None
            and any(dump.ranks[peer.rank] == rank and peer.arrived is not None for peer in call.peers)
        ]
        return max(seen, key=_sequence, default=None)


def make_scenes(dumps: Sequence[Dump]) -> list[Scene]:
    """One for each communicator, in the order in which they failed."""
    scenes: dict[tuple[str, tuple[int, ...]], Scene] = {}
    for dump in dumps:
        key = dump.communicator, tuple(dump.ranks)
        scene = scenes.setdefault(key, Scene(dump.communicator, dump.ranks, {}))
        scene.dumps[dump.rank] = dump
    return sorted(scenes.values(), key=lambda scene: (scene.began, scene.communicator != WORLD, scene.communicator))


def last_call(dump: Dump) -> Record | None:
    return dump.calls[-1] if dump.calls else None


def call_under_way(dump: Dump) -> Record | None:
    """The call in which the failure found the rank."""
    last = last_call(dump)
    return last if last and last.outcome != "done" else None


def main_frame(dump: Dump) -> Frame | None:
    """The line of the program at which the rank was when it learned of the failure."""
    return next((innermost(thread.frames) for thread in dump.threads if thread.is_main), None)


def _sequence(call: Record) -> int:
    return -1 if call.sequence is None else call.sequence
