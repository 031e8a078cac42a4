"""What a person is told about a failure: who, what, where, and what to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .divergence import Statuses, has_come
from .incident import CallFacts, Message, Report, Status

CROSSED = "each waits for the other"
SAME_CALLS = "All ranks have to make the same calls, with the same arguments and in the same order."


class Names:
    """Who the ranks are: ``rank 2 (host a, pid 4711)``, and what they said when they left."""

    def __init__(self, names: Sequence[str], left: Mapping[int, Status]) -> None:
        self._names, self._left = names, left

    def __getitem__(self, rank: int) -> str:
        return self._names[rank]

    def __len__(self) -> int:
        return len(self._names)

    def all(self, ranks: Sequence[int]) -> str:
        return _list([self[rank] for rank in ranks])

    def left(self, rank: int) -> Status | None:
        return self._left.get(rank)


def of_lost(report: Report, names: Names) -> str:
    """A rank is gone."""
    by = names[report.by]
    if report.ranks == [report.by]:
        return ". ".join([f"{by} is lost: {report.reason}", *_where(report)]) + "."
    reasons = [f"{by} lost {names.all(report.ranks)}: {report.reason or 'it cannot be reached'}"]
    for rank in report.ranks:
        if status := names.left(rank):
            after = f" after {status.last}" if status.last else " before its first call"
            reasons[0] = f"{by} lost {names[rank]}: it has closed its communicator{after}"
    return ". ".join([*reasons, *_where(report)]) + "."


def of_silence(report: Report, names: Names) -> str:
    """Something failed, and rank 0, which would know more, does not answer either."""
    seen = f"{names[report.by]} has waited {report.waited:.3g} s for {names.all(report.ranks)}"
    if report.error != "DeadlineExceeded":
        seen = f"{names[report.by]} lost {names.all(report.ranks)}: {report.reason}"
    silent = f"{seen}, and {names[0]} does not answer: it is stopped, unreachable or busy outside of Python"
    return ". ".join([silent, *_where(report)]) + "."


def of_interrupt(report: Report, names: Names) -> str:
    """A rank was told to stop, as by Ctrl-C."""
    return f"{names[report.by]} was interrupted in {report.reason}"


def of_deadline(report: Report, statuses: Statuses, names: Names) -> str:
    """A rank waited for too long; also where those are that it waited for."""
    place = f", in {report.call}{_round(report)}" if report.call else ""
    parts = [f"{names[report.by]} has waited {report.waited:.3g} s for {names.all(report.ranks)}{place}"]
    parts += [whereabouts(rank, statuses.get(rank), names) for rank in late(report, statuses)]
    return "; ".join(parts)


def of_mismatch(report: Report, statuses: Statuses, names: Names) -> str:
    """Ranks make different calls; which, and from where."""
    if report.message or report.call is None or report.call.sequence is None:
        return _of_pair(report, statuses)
    kinds: dict[str, dict[int, str]] = {}  # what the ranks do, and at which line
    for rank in range(len(names)):
        if call := _made(rank, report.call.sequence, statuses, names):
            kinds.setdefault(call.what, {})[rank] = call.where
    described = [f"{what}{_lines(places)} on {_ranks(list(places))}" for what, places in kinds.items()]
    if len(described) < 2:
        return f"{report.reason}. It is {', and '.join(described)}. {SAME_CALLS}"
    return f"The ranks make different calls: call {report.call.sequence} is {', but '.join(described)}. {SAME_CALLS}"


def _made(rank: int, sequence: int, statuses: Statuses, names: Names) -> CallFacts | None:
    """A rank's call of that number, as it answers; or, if that was its last one, as it said when it left."""
    if left := names.left(rank):
        return left.last if left.last and left.last.sequence == sequence else None
    status = statuses.get(rank)
    return status.asked if status else None


def of_unknown(message: Message) -> str:
    """One that only one of two ranks knows."""
    route = f"from rank {message.sender} to rank {message.receiver}"
    return f"A message {route} stands in another place among the calls of the one than among those of the other"


def _of_pair(report: Report, statuses: Statuses) -> str:
    """Two ranks differ in what they do with each other."""
    asked = {rank: status.asked if report.message else status.last for rank, status in statuses.items() if status}
    pair = (report.message.sender, report.message.receiver) if report.message else report.ranks
    calls = [f"rank {rank} makes {call}" for rank in pair if (call := asked.get(rank))]
    if len(calls) < 2:
        return ". ".join([report.reason, *[call[0].upper() + call[1:] for call in calls]]) + f". {SAME_CALLS}"
    why = f"; {report.reason}" if report.reason == CROSSED else ""
    return f"The ranks make different calls: {', but '.join(calls)}{why}. {SAME_CALLS}"


def of_crossing(ranks: Sequence[int], statuses: Statuses, names: Names) -> str:
    """Ranks wait for each other, each in something else."""
    places = []
    for rank in ranks:
        status = statuses[rank]
        places.append(f"{names[rank]} in {(status.errand or status.last) if status else 'nothing'}")
    return f"The ranks wait for each other: {', but '.join(places)}. {SAME_CALLS}"


def of_long_wait(report: Report, statuses: Statuses, names: Names) -> str:
    """What rank 0 says of a call that takes long, though nothing has failed yet."""
    waiting = [rank for rank, status in sorted(statuses.items()) if status and _is_in(status, report.call)]
    who = _ranks(waiting or [report.by])
    be = "has" if len(waiting or [report.by]) == 1 else "have"
    missing = late(report, statuses)
    parts = [f"{who} {be} waited {report.waited:.0f} s for {names.all(missing)}, in {report.call}"]
    parts += [whereabouts(rank, statuses.get(rank), names) for rank in missing]
    return "; ".join(parts)


def late(report: Report, statuses: Statuses) -> list[int]:
    """Who has not come to the call; if all have, those that are waited for. Not those who wait for others, too."""
    if report.call and report.call.sequence is not None:
        absent = {rank for rank, status in statuses.items() if not status or not has_come(status, report.call)}
        absent |= {rank for rank in report.ranks if rank not in statuses}
        if absent:
            return sorted(absent)
    return report.ranks


def whereabouts(rank: int, status: Status | None, names: Names) -> str:
    """``rank 3 is at data.py:17 in load, after call 811, barrier at train.py:40``."""
    if left := names.left(rank):
        return f"rank {rank} has closed its communicator, after {left.last or 'no call at all'}"
    if status is None:
        return f"{names[rank]} does not answer: it is stopped, unreachable or busy outside of Python"
    line = f"at {status.line}" if status.line else "alive"
    if status.in_call:
        return f"rank {rank} is {line}, for {status.since:.3g} s in {status.last}"
    return f"rank {rank} is {line}, after {status.last or 'no call at all'}"


def _where(report: Report) -> list[str]:
    return [f"Rank {report.by} was in {report.call}{_round(report)}"] if report.call else []


def _round(report: Report) -> str:
    return f", in {report.round}" if report.round else ""


def _lines(places: Mapping[int, str]) -> str:
    lines = [where for where in dict.fromkeys(places.values()) if where]
    return f" at {_list(lines)}" if lines else ""


def _ranks(ranks: Sequence[int]) -> str:
    return _list([f"rank {rank}" for rank in ranks])


def _is_in(status: Status, call: CallFacts | None) -> bool:
    return bool(status.in_call and call and status.last and status.last.sequence == call.sequence)


def _list(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}" if words else "nobody"
