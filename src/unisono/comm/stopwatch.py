"""How long calls take: in turns, so that what the machine does meanwhile falls on all of them alike.

Every round has another order: a call is slower after some calls than after others, for milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from .communicator import Communicator

Times = NDArray[np.float64]
PARTS = ("allgather", "reduce_scatter", "scatter", "gather")
ROOTED = ("broadcast", "reduce", "scatter", "gather")
FEWEST, MOST = 3, 400
SHORT, LONG = 0.01, 0.02


class Cell(NamedTuple):
    """A collective of a float32 vector of so many bytes, by an algorithm as it is written, or by the one chosen."""

    collective: str
    algorithm: str | None
    nbytes: int


def time_in_turns(
    comm: Communicator,
    cells: Sequence[Cell],
    *,
    rounds: int,
    seconds: float,
    hopeless: float = np.inf,
    before: Callable[[], Any] = lambda: None,
) -> Times:
    """Medians of the slowest rank's seconds, for each round and cell; a cell has so many seconds in a round.

    What takes so many times as long as another algorithm at first, and longer than there is time for, is hopeless and
    not timed any more: it is NaN. `before` comes before each loop, and is not timed.
    """
    arrays = Arrays()
    calls = {cell: call_of(comm, cell, arrays) for cell in dict.fromkeys(cells)}
    for call in list(calls.values())[:1]:  # and all that a process does only once
        slowest(comm, call, FEWEST)
    guesses = {cell: _guess(comm, cell, call) for cell, call in calls.items()}
    best: dict[Cell, float] = {}
    for cell, guess in guesses.items():
        best[_task(cell)] = min(guess, best.get(_task(cell), guess))
    counts = {cell: _count(guess, seconds) for cell, guess in guesses.items()}
    for cell, guess in guesses.items():
        if guess > max(seconds / FEWEST, hopeless * best[_task(cell)]):
            counts[cell] = 0
    found = np.full((rounds, len(cells)), np.nan)
    for turn in range(rounds):
        for number in Random(turn).sample(range(len(cells)), len(cells)):  # the same on every rank
            cell = cells[number]
            if counts[cell]:
                before()
                found[turn, number] = np.median(_loop(comm, cell, calls[cell], counts[cell]))
    return comm.broadcast(found)  # type: ignore[no-any-return]


def slowest(comm: Communicator, call: Callable[[], Any], count: int, *, apart: bool = False) -> Times:
    """The slowest rank's seconds for each of some calls; apart, each has a barrier before it that is not timed."""
    times = np.empty(count)
    comm.barrier()
    for number in range(count):
        if apart:
            comm.barrier()
        begun = perf_counter()
        call()
        times[number] = perf_counter() - begun
    return comm.allreduce(times, op="max")  # type: ignore[no-any-return]


def _loop(comm: Communicator, cell: Cell, call: Callable[[], Any], count: int) -> Times:
    """Some ranks leave a rooted call early, so there is a barrier before it. Of short calls each is known as the only
    one of its kind, as in a program: of many algorithms with the same array, each is looked for among all of them."""
    if count > FEWEST:
        comm._shortcuts.forget()
        call()
    return slowest(comm, call, count, apart=cell.collective in ROOTED)


def _task(cell: Cell) -> Cell:
    return cell._replace(algorithm=None)


def _guess(comm: Communicator, cell: Cell, call: Callable[[], Any]) -> float:
    """What a call takes, roughly: the first ones prepare it, and what is short is often disturbed."""
    first = float(_loop(comm, cell, call, 2)[1])
    return first if first > SHORT else float(np.median(_loop(comm, cell, call, 9)))


def _count(guess: float, seconds: float) -> int:
    """How many calls fit in."""
    return int(np.clip(seconds / guess, 1 if guess > LONG else FEWEST, MOST))


def call_of(comm: Communicator, cell: Cell, arrays: Arrays) -> Callable[[], Any]:
    """The call, in place where there is the choice."""
    collective, algorithm, nbytes = cell
    count = max(1, nbytes // 4)
    part = max(1, count // comm.size)
    whole = arrays.of("whole", part * comm.size if collective in PARTS else count)
    mine = arrays.of("mine", part)
    at_root = comm.rank == 0
    result = arrays.of("result", len(whole)) if collective in ("allgather", "gather", "reduce", "alltoall") else whole
    match collective:
        case "allreduce":
            return lambda: comm.allreduce(whole, out=whole, algorithm=algorithm)
        case "broadcast":
            return lambda: comm.broadcast(whole, algorithm=algorithm)
        case "reduce":
            return lambda: comm.reduce(whole, out=result if at_root else None, algorithm=algorithm)
        case "allgather":
            return lambda: comm.allgather(mine, out=result, algorithm=algorithm)
        case "reduce_scatter":
            return lambda: comm.reduce_scatter(whole, out=mine, algorithm=algorithm)
        case "scatter":
            return lambda: comm.scatter(whole if at_root else None, out=mine, algorithm=algorithm)
        case "gather":
            return lambda: comm.gather(mine, out=result if at_root else None, algorithm=algorithm)
        case "scan":
            return lambda: comm.scan(whole, out=result, algorithm=algorithm)
        case "barrier":
            return lambda: comm.barrier(algorithm=algorithm)
    parts = arrays.of("parts", part * comm.size).reshape(comm.size, part)
    received = arrays.of("received", parts.size).reshape(parts.shape)
    return lambda: comm.alltoall(parts, out=received, algorithm=algorithm)


class Arrays:
    """Zeros whose pages are there (those of ``np.zeros`` come when they are used first), for all calls of a size."""

    def __init__(self) -> None:
        self._made: dict[tuple[str, int], NDArray[np.float32]] = {}

    def of(self, role: str, count: int) -> NDArray[np.float32]:
        if (role, count) not in self._made:
            self._made[role, count] = np.empty(count, np.float32)
            self._made[role, count].fill(0)
        return self._made[role, count]
