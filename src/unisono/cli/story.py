"""A diagnosis in plain words."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from ..trace.causes import Cause, Version, What
from ..trace.diagnosis import Diagnosis, Story
from ..trace.dump import WORLD
from ..trace.ends import End
from ..trace.record import Record
from .units import format_seconds
from .words import comma, first_line, name_call, name_end, name_error, place_of, place_of_frame, ranks, short

MOST_WAITS = 8


def tell_story(found: Diagnosis, story: Story) -> list[str]:
    """A few sentences about one communicator."""
    is_first = story is found.stories[0]
    place = "" if story.communicator == WORLD else f" in communicator {story.communicator} ({ranks(story.ranks)})"
    head = f"First cause{place}: " if is_first else f"\nThen{place or ' in the communicator of all ranks'}: "
    lines = [head + _tell_cause(found, story)]
    if waits := _tell_waits(story):
        lines.append(waits)
    if end := _tell_end(story):
        lines.append(end)
    return lines


def tell_the_rest(found: Diagnosis) -> list[str]:
    """What to keep in mind when reading the above."""
    remarks = []
    if found.silent:
        remarks.append(
            f"No record of {ranks(found.silent)}: a rank that is killed, or that has not failed, leaves none; those of "
            "other hosts have to be copied here."
        )
    if len(found.hosts) > 1:
        remarks.append(
            "The ranks are of several hosts, whose clocks may differ: what came first is as their clocks say; how long "
            "a rank waited is right."
        )
    if any(story.communicator != WORLD for story in found.stories):
        remarks.append("In errors of a communicator of some ranks, these are numbered as it numbers them.")
    for run in found.other_runs:
        remarks.append(f"Of another run, which is not told here: {ranks(run.ranks)}, {_when(run.clock)} ({run.run}).")
    return remarks


def _tell_cause(found: Diagnosis, story: Story) -> str:
    cause = story.cause
    ends = [state.end for state in story.states if state.rank in cause.ranks]
    if cause.what is What.DIED:
        return _died(found.names[cause.ranks[0]], cause, ends[0] if ends else None)
    who = found.names[cause.ranks[0]] if len(cause.ranks) == 1 else ranks(cause.ranks)
    tell: dict[What, Callable[[str, Cause], str]] = {
        What.RAISED: _raised,
        What.INTERRUPTED: _interrupted,
        What.MISMATCH: lambda who, cause: _mismatch(cause),
        What.ELSEWHERE: _elsewhere,
        What.SILENT: _silent,
        What.SLOW: _slow,
        What.LOST: _lost,
    }
    return tell.get(cause.what, _other)(who, cause)


def _raised(who: str, cause: Cause) -> str:
    where = short(cause.failure.where) if cause.failure.where else place_of_frame(cause.at)
    return f"{who} raised {name_error(cause.failure)}{comma(where)}.{_last(cause)}"


def _interrupted(who: str, cause: Cause) -> str:
    were = "was" if len(cause.ranks) == 1 else "were"
    doing = ""
    if len(cause.ranks) == 1 and cause.call:
        doing = f" in {_located(cause.call)}" if cause.call.outcome != "done" else f" after {_located(cause.call)}"
    return f"{who} {were} interrupted (Ctrl-C){doing}."


def _mismatch(cause: Cause) -> str:
    if not cause.versions:
        said = first_line(cause.failure)
        return f"{said}." if said.startswith("The ranks make") else f"the ranks made different calls: {said}."
    number = cause.versions[0].call.sequence
    return f"the ranks made different calls as their call {number}: {'; '.join(map(_version, cause.versions))}."


def _version(version: Version) -> str:
    call = version.call._replace(sequence=None)
    op = f" ({call.kind.op})" if call.kind.op else ""
    return f"{ranks(version.ranks)} called {name_call(call)}{op}{comma(place_of(call))}"


def _died(who: str, cause: Cause, end: End | None) -> str:
    how = name_end(end) if end and not end.by_launcher else "died without a word"
    when = f" in or after {_located(cause.call)}" if cause.call else "; nobody saw it come to a call"
    witness = "another rank" if cause.failure.told_by is None else f"rank {cause.failure.told_by}"
    return f"{who} {how}{when}. It left no record; {witness} said: {first_line(cause.failure)}."


def _elsewhere(who: str, cause: Cause) -> str:
    return f"{who} did not come in time to {_call(cause)}: it was at {place_of_frame(cause.at) or 'an unknown line'}."


def _silent(who: str, cause: Cause) -> str:
    return (
        f"{who} did not answer in {_call(cause)} until the deadline. It left no record: it was stopped, did not get "
        "out of native code, or its host could not be reached."
    )


def _slow(who: str, cause: Cause) -> str:
    return f"{_call(cause)} was not through at the deadline; {who} was in it, too, and kept the others waiting."


def _lost(who: str, cause: Cause) -> str:
    return f"{who} was lost, but left a record: {first_line(cause.failure)}.{_last(cause)}"


def _other(who: str, cause: Cause) -> str:
    doing = f" in {_located(cause.call)}" if cause.call and cause.call.outcome != "done" else ""
    return f"{who}{doing}: {name_error(cause.failure)}."


def _call(cause: Cause) -> str:
    return _located(cause.call) if cause.call else "a call"


def _last(cause: Cause) -> str:
    if cause.call is None:
        return " It had made no call."
    done = "It had completed" if cause.call.outcome == "done" else "It was in"
    return f" {done} {_located(cause.call)}."


def _located(call: Record) -> str:
    return name_call(call) + comma(place_of(call))


def _tell_waits(story: Story) -> str:
    parts = [
        f"rank {wait.rank} waited {format_seconds(wait.seconds)} for rank {wait.awaited}"
        f"{'' if wait.has_come else ', which had not come'}"
        for wait in story.waits[:MOST_WAITS]
    ]
    if not parts:
        return ""
    more = f"; {len(story.waits) - MOST_WAITS} more waited" if len(story.waits) > MOST_WAITS else ""
    chain = story.chain if len(story.chain) <= MOST_WAITS else [*story.chain[:3], "…", *story.chain[-4:]]
    text = f"{'; '.join(parts)}{more} (chain: {' → '.join(map(str, chain))})."
    return text[0].upper() + text[1:]


def _tell_end(story: Story) -> str:
    """Where the rank was that the others waited for, unless that was the cause."""
    if len(story.chain) < 2 or (story.chain[-1] in story.cause.ranks and story.cause.what is not What.INTERRUPTED):
        return ""
    last = next((state for state in story.states if state.rank == story.chain[-1]), None)
    if last is None or last.failure is None or last.is_in_call or last.at is None:
        return ""
    done = f" after {name_call(last.call)}" if last.call else " before its first call"
    return f"Rank {last.rank}, which they waited for, was at {place_of_frame(last.at)},{done}."


def _when(clock: float) -> str:
    try:
        return f"{datetime.fromtimestamp(clock, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (ValueError, OverflowError, OSError):  # whoever wrote it
        return "at an unknown time"
