"""The flight recorder: the native numbers of the last calls, with names."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ..trace.record import Kind, Peer, Record
from .sites import Sites

if TYPE_CHECKING:
    from .._native import Recorder

RUNNING, DONE, FAILED = range(3)
"""As in native/observe/recorder.hpp."""


class Tally(NamedTuple):
    """How many calls a rank has begun together with others."""

    of_all: int
    sent: list[int]  # messages to each rank in calls of two ranks that are through
    received: list[int]  # and from each
    since: int  # the number of the first call that is counted


class Flight:
    """The last calls of one communicator, readable from any thread at any time."""

    def __init__(self, recorder: Recorder) -> None:
        self.sites = Sites()
        self._recorder = recorder
        self._kinds: list[Kind] = []
        self._numbers: dict[Kind, int] = {}

    def number_of(self, kind: Kind) -> int:
        """By which the native recorder knows a kind of call. There are as many as algorithms, types and operators."""
        if kind not in self._numbers:
            self._kinds.append(kind)
            self._numbers[kind] = len(self._kinds) - 1
        return self._numbers[kind]

    def kind(self, number: int) -> Kind:
        """What a number stands for."""
        return self._kinds[number]

    def tally(self) -> Tally:
        """How many calls have begun so far, and messages gone."""
        return Tally(*self._recorder.tally())

    def waited(self) -> list[float]:
        """Seconds that this rank has waited for each."""
        return [nanoseconds / 1e9 for nanoseconds in self._recorder.waited()]

    def spans_since(self, number: int) -> dict[int, tuple[float, float]]:
        """When the kept calls from this number on began and ended, in seconds; only of those that have ended."""
        return {
            number: (began / 1e9, ended / 1e9)
            for number, _, _, _, _, began, ended, outcome, _ in self._recorder.calls_since(number)
            if outcome != RUNNING
        }

    def calls_since(self, number: int = 0) -> list[Record]:
        """The kept calls from this number on, the newest last; the last one may still go on."""
        return [
            Record(
                number=number,
                sequence=None if sequence == self._recorder.no_sequence else sequence,
                kind=self._kinds[kind],
                bytes=nbytes,
                where=self.sites.name(site),
                began=began,
                ended=None if outcome == RUNNING else ended,
                failed=outcome == FAILED,
                peers=[Peer(rank, expected, arrived or None, *waits) for rank, expected, arrived, *waits in peers],
            )
            for number, sequence, kind, site, nbytes, began, ended, outcome, peers in self._recorder.calls_since(number)
        ]
