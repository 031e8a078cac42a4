"""The trace of one rank, read back and checked. A rank that was killed may have left it without an end."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import islice
from numbers import Real
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import ConfigError
from .events import COMMUNICATOR, FORMAT, HEADER, Event

_HEADER_FIELDS = {"rank": int, "size": int, "host": str, "run": str, "clock_offset_ns": int, "clock_error_ns": int}


class Group(NamedTuple):
    """A communicator, and the ranks of the job that it consists of."""

    identity: str
    ranks: list[int]


class RankTrace(NamedTuple):
    """What one rank wrote."""

    path: Path
    rank: int
    size: int
    host: str
    run: str
    offset: int  # nanoseconds from its clock to rank 0's
    error: int
    groups: dict[int, Group]  # by track
    events: list[Event]


def read_directory(directory: Path, *, partial: bool) -> list[RankTrace]:
    """The traces of all ranks of one run; of those that are there, where `partial` says that some may be missing."""
    if not directory.is_dir():
        raise ConfigError(f"{directory} is not a directory; name the one that UNISONO_TRACE had")
    paths = {
        int(found[1]): path for path in directory.iterdir() if (found := re.fullmatch(r"rank-(\d+)\.json", path.name))
    }
    if not paths:
        raise ConfigError(f"{directory} has no rank-N.json; run the job with UNISONO_TRACE={directory} first")
    traces = [read(path) for _, path in sorted(paths.items())]
    first = traces[0]
    for rank, trace in zip(sorted(paths), traces, strict=True):
        if trace.rank != rank:
            raise ConfigError(f"{trace.path} is the trace of rank {trace.rank}; it was renamed")
        if (trace.run, trace.size) != (first.run, first.size):
            raise ConfigError(
                f"{trace.path} is of another run than {first.path.name}; remove what is older, or trace each run into "
                "its own directory"
            )
    if len(traces) < first.size and not partial:
        missing = islice((str(rank) for rank in range(first.size) if rank not in paths), 8)
        raise ConfigError(
            f"{directory} has the traces of {len(traces)} of {first.size} ranks, but not of {', '.join(missing)}"
            f"{' and more' if first.size - len(traces) > 8 else ''}; copy them here from their hosts, or merge what is "
            "there with --partial"
        )
    return traces


def read(path: Path) -> RankTrace:
    """A trace; an error that says what is wrong with the file if it is none."""
    events = list(_events(path))
    if not events or events[0].get("name") != HEADER:
        raise ConfigError(f"{path} is not a trace that unisono wrote")
    facts = events[0]["args"]
    if facts.get("format") != FORMAT:
        raise ConfigError(f"{path} has format {facts.get('format')!r}; this version of unisono reads {FORMAT}")
    for name, kind in _HEADER_FIELDS.items():
        if type(facts.get(name)) is not kind:
            raise ConfigError(f"{path} has no valid {name!r} in its first event")
    if not 0 <= facts["rank"] < facts["size"]:
        raise ConfigError(f"{path} says that it is of rank {facts['rank']} of {facts['size']}")
    groups = {}
    for event in events:
        if event["name"] == COMMUNICATOR:
            groups[event["tid"]] = _group(path, event["args"])
    rank, size, host, run, offset, error = (facts[name] for name in _HEADER_FIELDS)
    return RankTrace(path, rank, size, host, run, offset, error, groups, events)


def _group(path: Path, arguments: dict[str, Any]) -> Group:
    identity, ranks = arguments.get("identity"), arguments.get("ranks")
    if not isinstance(identity, str) or not isinstance(ranks, list) or not all(type(rank) is int for rank in ranks):
        raise ConfigError(f"{path} describes a communicator that makes no sense: {arguments}")
    return Group(identity, ranks)


def _events(path: Path) -> Iterator[Event]:
    """An event a line, between brackets; without the closing one, the last line may be torn."""
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    if not lines or lines[0] != b"[":
        raise ConfigError(f"{path} is not a trace that unisono wrote")
    is_complete = lines[-1] == b"]"
    body = lines[1:-1] if is_complete else lines[1:]
    for number, line in enumerate(body, start=2):
        try:
            event = json.loads(line.removesuffix(b","))
        except (ValueError, RecursionError):
            if number == len(lines) and not is_complete:
                return
            raise ConfigError(f"{path}, line {number}: not JSON; the file was changed or damaged") from None
        if not _is_event(event):
            raise ConfigError(f"{path}, line {number}: not an event of a trace; the file was changed or damaged")
        yield event


def _is_event(event: Any) -> bool:
    if not isinstance(event, dict) or not isinstance(event.get("name"), str) or event.get("ph") not in tuple("XBEiM"):
        return False
    if not isinstance(event.get("args"), dict) or not all(type(event.get(name)) is int for name in ("pid", "tid")):
        return False
    times = {"M": (), "X": ("ts", "dur")}.get(event["ph"], ("ts",))
    return all(isinstance(event.get(name), Real) and not isinstance(event[name], bool) for name in times)
