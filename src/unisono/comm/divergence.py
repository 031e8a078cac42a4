"""Whether ranks that wait for each other have made their calls in different orders, concluded from what each says.

Ranks answer at different moments. What is concluded here is true nevertheless: the numbers only grow, and what a rank
has begun before something else it has begun before it forever.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from .incident import CallFacts, Message, Status

Statuses = Mapping[int, Status | None]
"""What ranks answered who were asked; None is no answer."""

LONG_ENOUGH = 1.0  # seconds that two ranks have to have waited for each other before that is an error
STUCK = 1.0  # seconds without a byte, where two ranks send to each other more than the links between them hold


def unknown_message(statuses: Statuses) -> Message | None:
    """One that a rank waits to send or receive, while the other has begun the call of all ranks that comes after it."""
    for rank, status in _answers(statuses):
        for other, theirs in _partners(status, statuses):
            if theirs.of_all <= status.of_all:  # it may still come
                continue
            taken, sent = _at(theirs.received, rank), _at(theirs.sent, rank)
            if status.to == other and taken is not None and taken <= (_at(status.sent, other) or 0):
                return Message(rank, other, taken)
            if status.source == other and sent is not None and sent == _at(status.received, other):
                return Message(other, rank, sent)
    return None


def crossed(statuses: Statuses) -> list[int]:
    """Two ranks that both receive from each other before they send, or both send what does not go through."""
    for rank, status in _answers(statuses):
        for other, theirs in _partners(status, statuses):
            both_receive = status.source == other and theirs.source == rank and status.to != other and theirs.to != rank
            both_send = status.to == other and theirs.to == rank and status.source != other and theirs.source != rank
            nothing_comes = _at(status.sent, other) == _at(theirs.received, rank) and _at(
                status.received, other
            ) == _at(theirs.sent, rank)
            if nothing_comes and (both_receive or (both_send and min(status.still, theirs.still) >= STUCK)):
                return [rank, other]
    return []


def crossed_errand(statuses: Statuses) -> tuple[int, int] | None:
    """A rank that waits for another one outside of calls, which waits for it in a call, or for something else."""
    for rank, own in sorted(statuses.items()):
        for other in own.errand.ranks if own and own.errand else ():
            status = statuses.get(other)
            if own and status and other != rank and _crosses(rank, own, status):
                return rank, other
    return None


def _crosses(rank: int, own: Status, other: Status) -> bool:
    if not own.errand or own.in_call or own.errand.since < LONG_ENOUGH:
        return False
    if errand := other.errand:
        return errand.key != own.errand.key and rank in errand.ranks and errand.since >= LONG_ENOUGH
    waits = other.inside and other.in_call and other.since >= LONG_ENOUGH
    return bool(waits and other.last and other.last.sequence is not None and not has_come(own, other.last))


def has_come(status: Status, call: CallFacts) -> bool:
    last = status.last.sequence if status.last else None
    return last is not None and call.sequence is not None and last >= call.sequence


def _answers(statuses: Statuses) -> Iterator[tuple[int, Status]]:
    return ((rank, status) for rank, status in sorted(statuses.items()) if status)


def _partners(status: Status, statuses: Statuses) -> Iterator[tuple[int, Status]]:
    """Those that the call under way sends to or receives from, and what they say."""
    for other in {status.to, status.source} - {None}:
        theirs = statuses.get(other) if other is not None else None
        if other is not None and theirs:
            yield other, theirs


def _at(counts: Sequence[int], rank: int) -> int | None:
    return counts[rank] if rank < len(counts) else None
