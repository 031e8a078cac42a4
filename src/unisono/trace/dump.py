"""What a rank knows of its calls when one of them has failed: DIR/rank-N.failure.json, read back strictly."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ..errors import ConfigError
from .plain_file import read_all, read_plain, write_plain
from .record import Peer, Record
from .stacks import Thread

FORMAT = 1
WORLD = "world"
MOST_PEERS = 32  # of a call, those that count: in a direct exchange among 1,000 ranks there are 999
LONGEST_TEXT = 8192

_NAME = re.compile(r"rank-\d{1,9}(\.[A-Za-z0-9_.-]{1,120})?\.failure\.json")


class Failure(NamedTuple):
    """Why a rank gave up."""

    error: str  # the name of the class
    message: str
    where: str  # file:line that raised it, if it is not a call's
    told_by: int | None  # rank of the job that noticed it; None: another one, which is not known


class Dump(NamedTuple):
    """Of one rank and one communicator. Ranks of its calls' peers are numbered as in the communicator."""

    format: int
    run: str  # the same in all dumps of a run, and in no other one
    job: str
    rank: int  # of the job
    size: int
    host: str
    pid: int
    names: list[str]  # of all ranks of the job: rank 2 (host a, pid 4711)
    communicator: str
    ranks: list[int]  # of the job, by their number in the communicator
    clock: float  # seconds since 1970 when it learned of the failure
    monotonic: int  # nanoseconds, the same moment
    failure: Failure
    calls: list[Record]
    threads: list[Thread]  # where they were at that moment
    links: str
    sharing: str
    deadline: float

    @property
    def name(self) -> str:
        return self.names[self.rank]


class Found(NamedTuple):
    """What a directory has."""

    dumps: list[Dump]
    skipped: list[str]  # files that are none, and why


def file_name(rank: int, communicator: str) -> str:
    return f"rank-{rank}.failure.json" if communicator == WORLD else f"rank-{rank}.{communicator}.failure.json"


def write(directory: str | os.PathLike[str], dump: Dump) -> Path:
    """A file with this name is complete. Only its owner can read what is made here."""
    return write_plain(Path(directory) / file_name(dump.rank, dump.communicator), _bounded(dump))


def read(directory: Path) -> Found:
    """All dumps there; whatever else has such a name is skipped, and named."""
    if not directory.is_dir():
        raise ConfigError(f"{directory} is not a directory; name the one that UNISONO_DUMP had")
    skipped: list[str] = []
    return Found(list(read_all(directory, _NAME, _read, skipped)), skipped)


def _read(path: Path) -> Dump:
    dump = _checked(read_plain(path, Dump, FORMAT))
    if file_name(dump.rank, dump.communicator) != path.name:
        raise ValueError(f"it is of rank {dump.rank}, communicator {dump.communicator[:120]}; was it renamed?")
    return dump


def _checked(dump: Dump) -> Dump:
    """What follows may index with any number in it."""
    for is_right, what in _rules(dump):
        if not is_right:
            raise ValueError(f"its {what} makes no sense")
    return dump


def _rules(dump: Dump) -> Iterator[tuple[bool, str]]:
    yield 0 <= dump.rank < dump.size, "rank"
    yield len(dump.names) == dump.size, "list of names"
    yield all(0 <= rank < dump.size for rank in dump.ranks) and len(set(dump.ranks)) == len(dump.ranks), "communicator"
    yield dump.rank in dump.ranks, "communicator"
    yield dump.failure.told_by is None or 0 <= dump.failure.told_by < dump.size, "failure"
    peers = (peer for call in dump.calls for peer in call.peers)
    yield all(0 <= peer.rank < len(dump.ranks) and peer.waited >= 0 for peer in peers), "list of calls"


def _bounded(dump: Dump) -> Dump:
    failure = dump.failure._replace(
        message=dump.failure.message[:LONGEST_TEXT], where=dump.failure.where[:LONGEST_TEXT]
    )
    calls = [call._replace(peers=_those_that_count(call.peers)) for call in dump.calls]
    return dump._replace(failure=failure, calls=calls)


def _those_that_count(peers: list[Peer]) -> list[Peer]:
    """Who did not come, and who was waited for longest."""
    return sorted(peers, key=lambda peer: (not peer.is_absent, -peer.waited))[:MOST_PEERS]
