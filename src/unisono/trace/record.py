"""A call on record. Times are nanoseconds of the monotonic clock, which all processes of a host share."""

from __future__ import annotations

from typing import Any, NamedTuple


class Kind(NamedTuple):
    """What calls have in common, whatever they are called on; None where it does not apply."""

    collective: str
    algorithm: str | None = None
    dtype: str | None = None
    op: str | None = None
    root: int | None = None

    def __str__(self) -> str:
        return f"{self.collective} {self.algorithm}" if self.algorithm else self.collective


class Peer(NamedTuple):
    """What a call had to do with one rank."""

    rank: int
    expected: bool  # whether the call gets anything from it
    arrived: int | None  # when its first frame was seen
    waited: int  # for it, in waits that were too long to be spun away
    longest_began: int  # the longest of these waits
    longest: int

    @property
    def is_absent(self) -> bool:
        """It has not come to the call, as far as can be seen from here."""
        return self.expected and self.arrived is None


class Record(NamedTuple):
    """One call of one rank. It goes on as long as it has not ended."""

    number: int  # of all calls of the rank
    sequence: int | None  # of the calls of all ranks; None for a call of two ranks only
    kind: Kind
    bytes: int
    where: str  # file:line of the caller
    began: int
    ended: int | None
    failed: bool
    peers: list[Peer]

    @property
    def to(self) -> int | None:
        """Whom a call of two ranks sends to."""
        if self.sequence is not None:
            return None
        both = self.kind.collective == "sendrecv" and len(self.peers) == 1
        return next((peer.rank for peer in self.peers if both or not peer.expected), None)

    @property
    def source(self) -> int | None:
        """Whom a call of two ranks receives from."""
        return None if self.sequence is not None else next((peer.rank for peer in self.peers if peer.expected), None)

    @property
    def outcome(self) -> str:
        return "running" if self.ended is None else "failed" if self.failed else "done"

    def facts(self) -> dict[str, Any]:
        """For a person to look at: times are seconds, as of time.monotonic()."""
        return {
            "sequence": self.sequence,
            **self.kind._asdict(),
            "bytes": self.bytes,
            "where": self.where,
            "started": self.began / 1e9,
            "ended": None if self.ended is None else self.ended / 1e9,
            "outcome": self.outcome,
            "peers": {
                peer.rank: {
                    "expected": peer.expected,
                    "arrived": None if peer.arrived is None else peer.arrived / 1e9,
                    "waited": peer.waited / 1e9,
                }
                for peer in self.peers
            },
        }
