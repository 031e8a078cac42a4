"""What came first, judged from the dumps of one communicator."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import NamedTuple

from .dump import Dump, Failure
from .record import Record
from .scene import Scene, call_under_way, last_call, main_frame
from .stacks import Frame
from .waits import find_chain, find_waits

OURS = ("UnisonoError", "ConfigError", "ScheduleError", "MismatchError", "PeerLost", "DeadlineExceeded")
INTERRUPT = "KeyboardInterrupt"


class What(StrEnum):
    """Kinds of causes."""

    RAISED = "raised"  # an error of the program's own
    INTERRUPTED = "interrupted"  # Ctrl-C
    MISMATCH = "mismatch"  # different calls
    DIED = "died"  # the others lost it, and it left no record
    ELSEWHERE = "elsewhere"  # others waited for it in a call to which it did not come
    SILENT = "silent"  # others waited for it until the deadline, and it left no record
    SLOW = "slow"  # all had come, but time ran out
    LOST = "lost"  # a rank that left a record, too
    OTHER = "other"


class Version(NamedTuple):
    """A call, and the ranks that made it."""

    call: Record
    ranks: list[int]


class Cause(NamedTuple):
    """The first one."""

    what: What
    ranks: list[int]  # whose it is
    failure: Failure  # in the words of who noticed it
    call: Record | None  # of these ranks, or to which they should have come
    at: Frame | None  # where they were, if that is known
    versions: list[Version]  # of a call that was not the same on all ranks


def find_cause(scene: Scene) -> Cause:
    """An error of one's own comes before what others noticed of it: a rank that had heard of another's kept that."""
    dumps = sorted(scene.dumps.values(), key=lambda dump: (dump.clock, dump.rank))
    for what, is_it in ((What.RAISED, _raised), (What.INTERRUPTED, _interrupted)):
        if own := [dump for dump in dumps if is_it(dump.failure)]:
            first = own[0]
            ranks = [dump.rank for dump in own] if what is What.INTERRUPTED else [first.rank]
            return Cause(what, sorted(ranks), first.failure, last_call(first), main_frame(first), [])
    origin = min(dumps, key=lambda dump: (dump.failure.told_by is None, dump.clock))
    judge = {"MismatchError": _mismatch, "PeerLost": _loss, "DeadlineExceeded": _lateness}
    return judge.get(origin.failure.error, _other)(scene, origin)


def compare_calls(scene: Scene) -> list[Version]:
    """The first call of all ranks that is not the same on all of them, in all its versions.

    What differed before a call that all have made and completed is over.
    """
    calls: dict[int, dict[int, Record]] = {}
    for rank, dump in sorted(scene.dumps.items()):
        for call in dump.calls:
            if call.sequence is not None:
                calls.setdefault(call.sequence, {})[rank] = call
    first: list[Version] = []
    for _, made in sorted(calls.items()):
        versions = _versions(made)
        if len(versions) > 1:
            first = first or versions
        elif len(made) == len(scene.dumps) and all(call.outcome == "done" for call in made.values()):
            first = []
    return first


def _versions(made: dict[int, Record]) -> list[Version]:
    versions: dict[tuple[object, ...], Version] = {}
    for rank, call in made.items():
        versions.setdefault((*call.kind, call.bytes), Version(call, [])).ranks.append(rank)
    return sorted(versions.values(), key=lambda version: -len(version.ranks))


def _raised(failure: Failure) -> bool:
    return failure.error not in (*OURS, INTERRUPT)


def _interrupted(failure: Failure) -> bool:
    return failure.error == INTERRUPT


def _mismatch(scene: Scene, origin: Dump) -> Cause:
    versions = compare_calls(scene)
    return Cause(What.MISMATCH, sorted(scene.dumps), origin.failure, call_under_way(origin), None, versions)


def _loss(scene: Scene, origin: Dump) -> Cause:
    """Errors number ranks as the communicator does."""
    text = origin.failure.message
    if found := _named(scene, r"^rank (\d+)\b.* was interrupted", text):
        return Cause(What.INTERRUPTED, found, origin.failure, scene.last_seen(found[0]), None, [])
    lost = _named(scene, r"\blost rank (\d+)\b", text) or scene.missing[:1]
    if not lost:
        return _other(scene, origin)
    dump = scene.dumps.get(lost[0])
    if dump is None:
        return Cause(What.DIED, lost, origin.failure, scene.last_seen(lost[0]), None, [])
    return Cause(What.LOST, lost, origin.failure, last_call(dump), main_frame(dump), [])


def _named(scene: Scene, pattern: str, text: str) -> list[int]:
    number = int(found[1][:9]) if (found := re.search(pattern, text)) else len(scene.ranks)
    return [scene.ranks[number]] if number < len(scene.ranks) else []


def _lateness(scene: Scene, origin: Dump) -> Cause:
    """Whom the others waited for in the end."""
    chain = find_chain(find_waits(scene), scene.missing)
    call = call_under_way(origin)
    if not chain:
        return _other(scene, origin)
    last = chain[-1]
    dump = scene.dumps.get(last)
    if dump is None:
        return Cause(What.SILENT, [last], origin.failure, call, None, [])
    if call_under_way(dump) is None:
        return Cause(What.ELSEWHERE, [last], origin.failure, call, main_frame(dump), [])
    return Cause(What.SLOW, [last], origin.failure, call, main_frame(dump), [])


def _other(scene: Scene, origin: Dump) -> Cause:
    return Cause(What.OTHER, [origin.rank], origin.failure, call_under_way(origin), main_frame(origin), [])
