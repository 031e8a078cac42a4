"""Which algorithms are worth a look, as they are written. Of those that are as good as each other, the first counts."""

from __future__ import annotations

from collections.abc import Iterator

from ..schedule.spelling import spell
from .place import SLOWNESS, Place
from .terms import kind_of

SHORT = 16 << 10
"""Bytes: in memory, a vector is short if the vectors of all ranks together have no more."""
LONG = 1 << 20
"""Bytes: in memory, from here on several ranks at work are worth more waits."""
SEGMENT = 1 << 20
"""Bytes: in memory, a segment has no more, so that it stays in the cache of who copies it."""
CHAINS = (8, 64)
FEW_AT_ONCE = 4
"""Up to so many hosts, a round in which all send to all is no longer than one of a ring, if vectors are short."""
FEW = 8
"""Up to so many hosts send to all others at once: the queue of a switch holds what more of them send to one."""

IN_MEMORY: dict[str, tuple[str, ...]] = {
    "allreduce": ("direct", "exchange"),
    "broadcast": ("flat",),
    "reduce": ("flat",),
    "scatter": ("flat",),
    "gather": ("flat",),
    "allgather": ("direct",),
    "reduce_scatter": ("direct",),
    "alltoall": ("pairwise", "bruck"),
    "barrier": ("exchange",),
    "scan": ("recursive_doubling",),
}
OVER_LINKS: dict[str, tuple[str, ...]] = {
    "allreduce": ("ring", "direct", "mst", "exchange", "recursive_doubling", "halving_doubling", "circulant", "flat"),
    "broadcast": ("mst", "pipelined_chain", "ring", "recursive_doubling", "direct", "flat"),
    "reduce": ("mst", "ring", "recursive_halving", "direct", "flat"),
    "scatter": ("flat", "mst"),
    "gather": ("flat", "mst"),
    "allgather": ("ring", "direct", "recursive_doubling", "bruck", "flat", "mst"),
    "reduce_scatter": ("ring", "direct", "circulant", "mst", "recursive_halving"),
    "alltoall": ("pairwise", "bruck"),
    "barrier": ("dissemination", "exchange"),
    "scan": ("recursive_doubling",),
}
SLOWER_THAN_PREDICTED: dict[tuple[str, str], frozenset[str]] = {
    ("memory_crowded", "allreduce"): frozenset({"exchange", "parameter_servers"}),
    ("memory_crowded", "barrier"): frozenset({"exchange"}),
    ("memory_crowded", "reduce"): frozenset({"flat", "mst"}),  # of long vectors
    ("memory_crowded", "allgather"): frozenset({"recursive_doubling", "bruck", "ring", "flat", "mst"}),
    ("memory_crowded", "reduce_scatter"): frozenset({"recursive_halving", "circulant"}),
    ("tcp", "allgather"): frozenset({"flat", "mst"}),
    ("tcp_crowded", "allgather"): frozenset({"flat", "mst"}),
    ("wire_crowded", "allgather"): frozenset({"flat", "mst"}),
    ("tcp_crowded", "barrier"): frozenset({"flat"}),
    ("wire_crowded", "barrier"): frozenset({"flat"}),
}
"""By kind of links and collective, for `slower_than_predicted`; docs/tune.md has the figures."""
TWO_RANKS = {"allreduce": "exchange", "allgather": "direct", "reduce_scatter": "direct"}
MIDDLING = 4 << 20
"""Bytes: on one host, up to here a round more costs more than what one has to wait for many at once."""
AT_ONCE = {"direct", "exchange", "flat"}
"""Everybody sends to all, or all to one."""


def candidates(collective: str, p: int, nbytes: int, place: Place) -> list[str]:
    """For a vector of so many bytes."""
    names = (
        _in_memory(collective, p, nbytes, place) if place.shares_memory else _over_links(collective, p, nbytes, place)
    )
    if len(place.host_of(p)) > FEW and not (place.shares_memory or place.is_one_host):
        names = tuple(name for name in names if name not in AT_ONCE or collective in ("scatter", "gather"))
    found = [text for name in names for text in _written(name, nbytes, place)]
    if collective == "allreduce" and not place.shares_memory:
        found = [*_unequal(place), *found] if nbytes > LONG else [*found, *_unequal(place)]
        if place.has_neighbours:
            hierarchical = spell("hierarchical", {"hosts": place.hosts})
            found = [hierarchical, *found] if nbytes > SHORT else [*found, hierarchical]
    return found


def slower_than_predicted(collective: str, p: int, place: Place) -> frozenset[str]:
    """What would be chosen by its prediction, but was measured to be no faster than what is chosen."""
    kind = kind_of(place)
    names = SLOWER_THAN_PREDICTED.get((kind, collective), frozenset())
    if collective == "allgather" and kind in ("tcp_crowded", "wire_crowded") and p & (p - 1):
        names |= {"recursive_doubling"}  # where ranks beyond the power of two wait for the others
    if kind == "memory" and p == 2 and collective in ("broadcast", "reduce"):
        # Of two ranks these are the same, or what is taken without asking.
        names |= {"pipelined_chain", "direct", "ring", "recursive_halving"}
    return names


def _in_memory(collective: str, p: int, nbytes: int, place: Place) -> tuple[str, ...]:
    match collective:
        case "allreduce" if place.is_crowded:
            return ("flat", "direct") if nbytes <= (1 if p <= FEW_AT_ONCE else 4) * SHORT else ("direct",)
        case "allreduce" if nbytes * p <= SHORT:
            return ("exchange", "direct")
        case "reduce" if p == 2:  # window by window
            return ("flat",) if nbytes < 4 * LONG else ("direct",)
        case "reduce" if nbytes * p > 4 * LONG:
            return ("direct", "flat")
        case "reduce" if p > FEW_AT_ONCE and place.is_crowded and nbytes * p >= LONG // 2:
            return ("direct",)
        case "reduce" if not place.is_crowded:
            return ("flat", "direct")
        case "barrier" if place.is_crowded:  # rank 0 leaves first: what it sends then is there before it is missed
            return ("flat",)
        case "broadcast" if p == 2 and nbytes > SHORT:  # both copy half; of more, each would wait for one other's copy
            return ("pipelined_chain",)
    return IN_MEMORY[collective]


def _over_links(collective: str, p: int, nbytes: int, place: Place) -> tuple[str, ...]:
    """Favourites first: what was best of all most of the time."""
    if collective == "allreduce" and p > 2 and place.is_one_host and place.is_crowded and nbytes > LONG // 4:
        return _busy_all_the_time(p, nbytes)
    names = tuple(name for name in OVER_LINKS[collective] if name not in slower_than_predicted(collective, p, place))
    favourites = [name for name in _favourites(collective, p, nbytes, place) if name in names]
    return (*favourites, *(name for name in names if name not in favourites))


def _busy_all_the_time(p: int, nbytes: int) -> tuple[str, ...]:
    """On one host bytes cost cores, and in a tree most ranks wait for one.

    The ring has the least on its way, direct the fewest turns.
    """
    return ("direct", "ring") if p <= FEW_AT_ONCE and nbytes < LONG else ("ring", "direct")


def _favourites(collective: str, p: int, nbytes: int, place: Place) -> Iterator[str]:
    if p == 2 and collective == "allreduce" and LONG // 4 < nbytes <= 2 * LONG:
        yield "direct"  # an exchange would have twice as much on its way: more than the caches hold
    elif p == 2:
        yield from [TWO_RANKS[collective]] if collective in TWO_RANKS else []
    elif place.is_one_host:
        yield from ["direct"] if nbytes <= MIDDLING and collective in TWO_RANKS else []
        yield from ["mst"] if nbytes <= 4 * SHORT and collective == "scatter" and place.is_crowded else []
    elif nbytes <= SHORT:
        if place.is_crowded:  # in a tree, few ranks want cores at a time
            yield "mst"
        if p <= FEW_AT_ONCE and collective in TWO_RANKS:
            yield "direct"


def _written(name: str, nbytes: int, place: Place) -> Iterator[str]:
    if name != "pipelined_chain":
        yield name
    elif place.shares_memory:
        yield spell(name, {"segments": min(CHAINS[-1], max(2, nbytes // SEGMENT))})
    else:
        yield from (spell(name, {"segments": segments}) for segments in CHAINS if nbytes >= segments)


def _unequal(place: Place) -> Iterator[str]:
    """Those that know whose wire is slow."""
    if place.slow and max(place.hosts) == 1:
        yield from (spell("weighted", {"shares": shares(place), "segments": segments}) for segments in CHAINS)


def shares(place: Place) -> tuple[int, ...]:
    """What each host adds up for all: nothing if its wire is so slow that it is the last to be through anyway.

    A host with the share w of n bytes sends and receives n(1 + (h-2)w) of them. The shares w are those for which the
    busiest wire is through first: every host that takes part needs the same time.
    """
    count = len(place.slow)
    rates = [SLOWNESS / slow for slow in place.slow]
    taking = list(range(count))
    while len(taking) > 2:
        # n(1 + (h-2)w)/rate is the same T for all that take part: w = (T·rate - 1)/(h-2), and the w are 1 together
        time = (count - 2 + len(taking)) / sum(rates[host] for host in taking)
        slowest = min(taking, key=lambda host: rates[host])
        if time * rates[slowest] >= 1:
            break
        taking.remove(slowest)
    time = (count - 2 + len(taking)) / sum(rates[host] for host in taking)
    return tuple(round(100 * max(0.0, time * rates[h] - 1) / (count - 2)) if h in taking else 0 for h in range(count))
