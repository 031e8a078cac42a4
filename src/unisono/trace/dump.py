"""What a rank knows of its calls when one of them has failed: DIR/rank-N.failure.json, read back strictly."""

from __future__ import annotations

import json
import os
import re
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import ConfigError
from .plain import from_plain, printable, to_plain
from .record import Peer, Record
from .stacks import Thread

FORMAT = 1
WORLD = "world"
LARGEST_FILE = 16 << 20
MOST_PEERS = 32  # of a call, those that count: in a direct exchange among 1,000 ranks there are 999
LONGEST_TEXT = 8192

_NAME = re.compile(r"rank-(\d{1,9})(?:\.([A-Za-z0-9_.-]{1,120}))?\.failure\.json")


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
    os.makedirs(directory, mode=0o700, exist_ok=True)
    path = Path(directory) / file_name(dump.rank, dump.communicator)
    draft = path.with_name(f".{path.name}.{os.getpid()}.{time.monotonic_ns()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with open(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
            json.dump(to_plain(_bounded(dump)), file, separators=(",", ":"), ensure_ascii=False)
        os.replace(draft, path)
    except BaseException:
        os.unlink(draft)
        raise
    return path


def read(directory: Path) -> Found:
    """All dumps there; whatever else has such a name is skipped, and named."""
    if not directory.is_dir():
        raise ConfigError(f"{directory} is not a directory; name the one that UNISONO_DUMP had")
    dumps, skipped = [], []
    for path in sorted(directory.iterdir()):
        if not (name := _NAME.fullmatch(path.name)):
            continue
        try:
            dump = _read(path)
            if file_name(dump.rank, dump.communicator) != path.name:
                raise ValueError(f"it is of rank {dump.rank}, communicator {dump.communicator[:120]}; was it renamed?")
            dumps.append(dump)
        except (OSError, ValueError, RecursionError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            skipped.append(f"{name[0]} was skipped: {printable(reason or type(error).__name__)[:200]}")
    return Found(dumps, skipped)


def _read(path: Path) -> Dump:
    with open(path, "rb", opener=_open_regular) as file:
        data = file.read(LARGEST_FILE + 1)
    if len(data) > LARGEST_FILE:
        raise ValueError(f"it is larger than {LARGEST_FILE >> 20} MiB")
    try:
        value = json.loads(data, parse_constant=_refuse)
    except ValueError:
        raise ValueError("it is empty" if not data else "it is not JSON, or not all of it") from None
    if isinstance(value, dict) and value.get("format") != FORMAT:
        raise ValueError(f"it has format {value.get('format')!r}; this version of unisono reads {FORMAT}")
    return _checked(from_plain(Dump, value))


def _open_regular(path: str, flags: int) -> int:
    """Without waiting: a pipe would wait for somebody who writes."""
    descriptor = os.open(path, flags | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ValueError("it is not a regular file")
    return descriptor


def _refuse(constant: str) -> Any:
    raise ValueError(constant)


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
