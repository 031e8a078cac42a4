"""The terms of the model: which work of a schedule costs time on which kind of links.

A term whose price depends on the size has one at some sizes (knots); in between, on the logarithm of the size, the
price goes straight from one to the next. So every prediction is a sum of products, and prices can be fitted to what was
measured.
"""

from __future__ import annotations

from typing import NamedTuple

from .place import Place
from .stages import prefers_stages, window
from .work import Work, work_in_memory, work_over_links


class Term(NamedTuple):
    """A kind of work (a field of Work; "" is a call as such), and the exponents of the sizes at which it has prices."""

    name: str
    field: str
    knots: tuple[int, ...] = ()
    scales: bool = False  # with the bytes of the vector
    staged: bool | None = None  # only if vectors go through stages, or only if not


STAGED, LENT, LOOP, HIDDEN = (12, 16, 20, 24), (24, 28), (12, 16, 20, 24, 28), (10, 15)
MEMORY = (
    Term("call", ""),
    Term("wait_in_turn", "rounds"),
    Term("wait", "messages_shared"),
    Term("staged", "moved_shared", STAGED, scales=True, staged=True),
    Term("staged_foreign", "foreign_shared", STAGED, scales=True, staged=True),
    Term("lent", "moved_shared", LENT, scales=True, staged=False),
    Term("lent_foreign", "foreign_shared", LENT, scales=True, staged=False),
)
TCP = (
    Term("call", ""),
    Term("round", "rounds"),
    Term("message", "messages_busiest"),
    Term("message_shared", "messages_shared"),
    Term("byte", "moved_busiest", LOOP, scales=True),
    Term("byte_shared", "moved_shared", LOOP, scales=True),
    Term("reduced", "reduced", scales=True),
)
WIRE = (
    Term("call", ""),
    Term("round", "rounds"),
    Term("message", "messages_busiest"),
    Term("message_shared", "messages_shared"),
    Term("wire_in_step", "wire_in_step", scales=True),
    Term("wire_at_once", "wire_at_once", scales=True),
    Term("byte_shared", "moved_shared", scales=True),
    Term("reduced", "reduced", scales=True),
)
CROWDED_WIRE = tuple(
    term._replace(knots=HIDDEN) if term.name == "message_shared" else term  # cores work while wires are busy
    for term in WIRE
)
KINDS = {
    "memory": MEMORY,
    "memory_crowded": MEMORY,
    "tcp": TCP,
    "tcp_crowded": TCP,
    "wire": WIRE,
    "wire_crowded": CROWDED_WIRE,
}
"""Of links; crowded is a machine with more ranks than cores."""


def kind_of(place: Place) -> str:
    """Which of the kinds the ranks are joined by."""
    kind = "memory" if place.shares_memory else "tcp" if place.is_one_host else "wire"
    return f"{kind}_crowded" if place.is_crowded else kind


def work_of(collective: str, text: str, p: int, nbytes: int, place: Place) -> Work:
    """What the ranks do, by the algorithm that is written so."""
    if not place.shares_memory:
        return work_over_links(collective, text, p, place)
    staged, windows_of = prefers_stages(collective, p, nbytes), window(collective, p, nbytes)
    return work_in_memory(
        collective, text, p, place.cores, staged, windowed=staged and windows_of is not None and windows_of < nbytes
    )


def columns(kind: str) -> list[str]:
    """The names of all prices."""
    return [name for term in KINDS[kind] for name in _names(term)]


def amounts(collective: str, text: str, p: int, nbytes: int, place: Place) -> list[float]:
    """How much there is of what has a price, in the order of `columns`."""
    work = work_of(collective, text, p, nbytes, place)
    staged = prefers_stages(collective, p, nbytes)
    size = nbytes * p if place.shares_memory else nbytes
    found = []
    for term in KINDS[kind_of(place)]:
        amount = getattr(work, term.field) if term.field else 1.0
        amount *= nbytes if term.scales else 1
        applies = term.staged is None or term.staged == staged
        found += [amount * weight if applies else 0.0 for weight in _weights(size, term.knots)]
    return found


def _names(term: Term) -> list[str]:
    return [f"{term.name}_2^{knot}" for knot in term.knots] or [term.name]


def _weights(size: int, knots: tuple[int, ...]) -> list[float]:
    """How near a size is to each knot; together 1."""
    if not knots:
        return [1.0]
    weights = [0.0] * len(knots)
    at = min(max(logarithm(size), knots[0]), knots[-1])
    upper = next((i for i, knot in enumerate(knots) if i and at <= knot), len(knots) - 1)
    low, high = knots[upper - 1], knots[upper]
    weights[upper] = (at - low) / (high - low)
    weights[upper - 1] = 1.0 - weights[upper]
    return weights


def logarithm(size: int) -> float:
    """To base 2, straight between powers of 2: without rounding, so the same on every machine."""
    exponent = max(1, size).bit_length() - 1
    return exponent + size / (1 << exponent) - 1 if size > 0 else 0.0
