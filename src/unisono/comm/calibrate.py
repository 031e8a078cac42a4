"""Measure what the model has prices for, on the ranks of a communicator; all of them take part."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from ..tune.candidates import OVER_LINKS
from ..tune.fit import fit
from ..tune.model import ALIKE, Model, path_name
from ..tune.place import Place
from ..tune.terms import KINDS, amounts, columns, kind_of
from .stopwatch import Cell, time_in_turns

if TYPE_CHECKING:
    from .communicator import Communicator

KB, MB = 1 << 10, 1 << 20
SIZES = {
    "memory": (64, 2 * KB, 8 * KB, 32 * KB, 256 * KB, 2 * MB, 5 * MB, 12 * MB, 32 * MB),
    "tcp": (64, 2 * KB, 32 * KB, 256 * KB, 2 * MB, 12 * MB),
    "wire": (64, 2 * KB, 32 * KB, 256 * KB, 2 * MB),
}
OTHERS = {"allgather": ("ring", "direct"), "reduce_scatter": ("ring", "direct")}
"""Besides allreduces, these, of every other size: they move, or reduce, more for what they wait."""
ROUNDS, SECONDS = 3, 0.005
DTYPES = ("float32", "float64", "float16", "bfloat16", "int32", "int64")
OPERATORS = ("sum", "prod", "min", "max")
REDUCED, REDUCTIONS = 64 * KB, 20
PROBE = 2 * MB
PROBES, PINGS = 3, 40
SLOW_WIRE = PROBE / 0.4
"""Bytes per second: of a slower one, an eighth of a probe tells enough."""
LONG_ENOUGH = 0.2
"""Seconds of a probe: what else the processors did meanwhile took much less."""
FEW_BYTES, LONGEST_CALL = 32 * KB, 0.1
"""Seconds that the largest vectors may be on the wire."""
MOST_PATHS = 16
"""Hosts up to which every path between two is measured; of more, those to two neighbours."""


def measure_prices(comm: Communicator, place: Place, rate: float = np.inf) -> dict[str, float]:
    """The prices of the kind of links that the ranks have, the same on every rank. Wires have so many bytes a second:
    vectors that would take long on them are left out."""
    cells = [cell for cell in calibration_cells(kind_of(place)) if cell.nbytes <= max(FEW_BYTES, rate * LONGEST_CALL)]
    times = time_in_turns(comm, cells, rounds=ROUNDS, seconds=SECONDS)
    return prices_from(cells, np.median(times, axis=0), comm.size, place)


def calibration_cells(kind: str) -> list[Cell]:
    """What is measured to find the prices of a kind of links."""
    sizes = SIZES[kind.partition("_")[0]]
    cells = [Cell("allreduce", name, nbytes) for nbytes in sizes for name in OVER_LINKS["allreduce"]]
    return cells + [Cell(other, name, nbytes) for nbytes in sizes[::2] for other in OTHERS for name in OTHERS[other]]


def prices_from(cells: list[Cell], seconds: Any, p: int, place: Place) -> dict[str, float]:
    """The prices by which the cells take what they take."""
    work = np.array([amounts(cell.collective, str(cell.algorithm), p, cell.nbytes, place) for cell in cells])
    return _named(kind_of(place), work, fit(work, seconds))


def _named(kind: str, work: Any, prices: Any) -> dict[str, float]:
    """Prices by name. Knots that nothing was measured at have the price of the nearest that has one."""
    found = dict(zip(columns(kind), [float(f"{price:.4g}") for price in prices], strict=True))
    seen = dict(zip(columns(kind), work.any(axis=0).tolist(), strict=True))
    for term in KINDS[kind]:
        knots = [f"{term.name}_2^{knot}" for knot in term.knots]
        known = [i for i, knot in enumerate(knots) if seen[knot]]
        for i, knot in enumerate(knots):
            if known and not seen[knot]:
                found[knot] = found[knots[min(known, key=lambda k: (abs(k - i), k))]]
    return found


def measure_gamma(comm: Communicator) -> dict[str, float]:
    """Seconds per byte for types and operators: what our reductions take in rank 0, in its cache.

    No call is timed: what it takes longer than another is less than what a wire or a crowd of ranks does to both.
    """
    names = [(dtype, op) for dtype in DTYPES for op in OPERATORS]
    found = np.array([_reduction(dtype, op) if comm.rank == 0 else 0.0 for dtype, op in names])
    pairs = zip(names, comm.broadcast(found).tolist(), strict=True)
    return {f"{dtype} {op}": float(f"{seconds:.4g}") for (dtype, op), seconds in pairs}


def _reduction(dtype: str, op: str) -> float:
    """Seconds per byte, the best of some loops: others may be in the way."""
    from .._native import native_reduce  # the command line can do without these
    from .arrays import CODES
    from .call import OPS

    a, b = np.zeros(REDUCED, np.uint8), np.zeros(REDUCED, np.uint8)
    elements = REDUCED // np.dtype("uint16" if dtype == "bfloat16" else dtype).itemsize
    reduce = native_reduce(OPS[op], CODES[dtype], [a.ctypes.data, b.ctypes.data], a.ctypes.data, elements, (a, b))
    taken = []
    for _ in range(REDUCTIONS):
        begun = perf_counter()
        for _ in range(REDUCTIONS):
            reduce()
        taken.append((perf_counter() - begun) / (REDUCTIONS * REDUCED))
    return min(taken)


def measure_wires(comm: Communicator) -> dict[str, dict[str, float]]:
    """Bytes per second of every host's wire: the best that it does with another. Those of all paths between hosts, if
    one is slower than the wires at its ends; the seconds of all, if they are not equally far."""
    hosts = list(dict.fromkeys(comm.hosts))
    first = {host: comm.hosts.index(host) for host in hosts}
    distances = range(1, len(hosts)) if len(hosts) <= MOST_PATHS else (1, 2)
    pairs = [(host, hosts[(number + by) % len(hosts)]) for by in distances for number, host in enumerate(hosts)]
    path_rates = {path_name(a, b): _rate(comm, first[a], first[b]) for a, b in pairs}
    asked = {(a, b): _round_trip(comm, first[a], first[b]) for a, b in pairs}
    trips = {(a, b): min(asked[a, b], asked.get((b, a), np.inf)) for a, b in pairs}
    rates = dict.fromkeys(hosts, 0.0)
    for (a, b), rate in zip(pairs, path_rates.values(), strict=True):
        rates[a], rates[b] = max(rates[a], rate), max(rates[b], rate)
    found = {"rates": rates}
    if any(rate * ALIKE < min(rates[a], rates[b]) for (a, b), rate in zip(pairs, path_rates.values(), strict=True)):
        found["path_rates"] = path_rates
    if max(trips.values()) > ALIKE * min(trips.values()):
        found["path_delays"] = {path_name(*pair): trip / 2 for pair, trip in trips.items()}
    return found


def _rate(comm: Communicator, sender: int, receiver: int) -> float:
    """One way. A slow wire is asked again: it may be the processors that were slow, unless it took very long."""
    found = 0.0
    for _ in range(PROBES):
        found = max(found, _best_rate(comm, sender, receiver, PROBE // 8, 1))
        if found >= SLOW_WIRE:
            return _best_rate(comm, sender, receiver, PROBE, PROBES)
        if found * LONG_ENOUGH < PROBE // 8:
            break
    return found


def _best_rate(comm: Communicator, sender: int, receiver: int, nbytes: int, times: int) -> float:
    """Several times, the fastest of them."""
    rate = np.zeros(1)
    data = np.ones(nbytes, np.uint8)
    word = np.zeros(1, np.uint8)
    comm.barrier()
    for _ in range(times):
        begun = perf_counter()
        if comm.rank == sender:
            comm.send(data, receiver)
            comm.recv(receiver, out=word)
            rate[0] = max(rate[0], nbytes / (perf_counter() - begun))
        elif comm.rank == receiver:
            comm.recv(sender, out=data)
            comm.send(word, sender)
    comm.broadcast(rate, root=sender)
    return float(f"{rate[0]:.4g}")


def _round_trip(comm: Communicator, one: int, other: int) -> float:
    """Seconds there and back, the shortest of many."""
    trip, word = np.full(1, np.inf), np.zeros(1, np.uint8)
    comm.barrier()
    for _ in range(PINGS):
        begun = perf_counter()
        if comm.rank == one:
            comm.send(word, other)
            comm.recv(other, out=word)
            trip[0] = min(trip[0], perf_counter() - begun)
        elif comm.rank == other:
            comm.recv(one, out=word)
            comm.send(word, one)
    comm.broadcast(trip, root=one)
    return float(f"{trip[0]:.4g}")


def measure(comm: Communicator, say: Callable[[str], None] = lambda text: None) -> Mapping[str, Any]:
    """All that these ranks can tell: facts of a model."""
    selector = comm._runner.selector
    place = selector.place
    facts: dict[str, Any] = {}
    if len(place.hosts) > 1:
        say("wires")
        facts |= measure_wires(comm)
        place = Model(**facts).at(place._replace(slow=(), paths=()), comm.hosts)
    kind = kind_of(place)
    say(kind.replace("_", ", "))
    facts["costs"] = {kind: measure_prices(comm, place, min(facts.get("rates", {"": np.inf}).values()))}
    say("types and operators")
    facts["gamma"] = measure_gamma(comm)
    return facts
