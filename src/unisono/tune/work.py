"""What a schedule makes ranks do: the numbers that a model of the machine has a price for.

Bytes are parts of the vector, so that one look serves vectors of any size. What the cores of a host do is counted
twice: for the *busiest* rank, and for all ranks of a machine *shared* by its cores. What goes through wires, too: *in
step*, round by round, as if ranks waited for each other after each of them, and *at once*, as if nobody ever waited.
What is passed on byte by byte takes a time between the two.

All counting is done in whole numbers, so that every rank finds the same, whatever its processor.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ..interpret.share import Kind, SharedProgram, When, share_all
from ..schedule.ir import COPY, Ints
from ..schedule.schedule import Messages, Schedule
from ..schedule.spelling import schedule_named
from .place import SLOWNESS, Path, Place


class Work(NamedTuple):
    """Rounds and messages as they are, bytes as multiples of those of the vector."""

    rounds: float  # a far one counts more; in memory: waits of which each depends on the last
    messages_busiest: float  # in memory: waits
    messages_shared: float
    moved_busiest: float
    moved_shared: float
    foreign_shared: float  # in memory: of these, in the memory of other ranks
    wire_in_step: float
    wire_at_once: float
    reduced: float


@lru_cache(4096)
def work_over_links(collective: str, text: str, p: int, place: Place) -> Work:
    """Of ranks that send each other messages."""
    schedule = schedule_named(collective, text, p)
    table, size, hosts, machines = schedule.table, _sizes(schedule), place.host_of(p), place.machine_of(p)
    messages, moved, reduced = (np.zeros(p, np.int64) for _ in range(3))
    wires = []
    for moves in (table.puts, table.gets):
        nbytes = _bytes(moves, size)
        np.add.at(moved, moves.rank, nbytes)
        np.add.at(messages, np.unique(np.stack([moves.round, moves.rank, moves.peer]), axis=1)[1], 1)
        wire = np.zeros((max(1, table.rounds), int(hosts.max()) + 1), np.int64)
        far = hosts[moves.rank] != hosts[moves.peer]
        np.add.at(wire, (moves.round[far], hosts[moves.rank[far]]), nbytes[far])
        wires.append(wire * place.slowness(wire.shape[1]))
    if place.paths:
        wires.append(_on_paths(table.puts, _bytes(table.puts, size), hosts, place.paths, len(wires[0])))
    folds = table.gets.how != COPY
    np.add.at(reduced, table.gets.rank[folds], _bytes(table.gets, size)[folds])
    one, cores = _one(schedule, size), place.cores
    return Work(
        rounds=_distance(table.puts, place, p),
        messages_busiest=float(messages.max()),
        messages_shared=_of_busiest(messages, machines) / cores,
        moved_busiest=int(moved.max()) / one,
        moved_shared=_of_busiest(moved, machines) / (one * cores),
        foreign_shared=0.0,
        wire_in_step=int(np.max([wire.max(axis=1) for wire in wires], axis=0).sum()) / (one * SLOWNESS),
        wire_at_once=int(max(wire.sum(axis=0).max() for wire in wires)) / (one * SLOWNESS),
        reduced=max(int(reduced.max()) * cores, _of_busiest(reduced, machines)) / (one * cores),
    )


def _on_paths(puts: Messages, nbytes: Ints, hosts: Ints, paths: tuple[Path, ...], rounds: int) -> Ints:
    """What goes over each of the paths that are unlike the wires at their ends, by round."""
    found = np.zeros((rounds, len(paths)), np.int64)
    for number, path in enumerate(paths):
        on_it = (hosts[puts.rank] == path.source) & (hosts[puts.peer] == path.target)
        np.add.at(found[:, number], puts.round[on_it], nbytes[on_it] * path.slow)
    return found


def _distance(puts: Messages, place: Place, p: int) -> float:
    """Rounds, each as long as the farthest of its messages is under way."""
    if not place.paths:
        return float(len(np.unique(puts.round)))
    hosts = place.host_of(p)
    far = place.distances(int(hosts.max()) + 1)[hosts[puts.rank], hosts[puts.peer]]
    rounds = np.zeros(int(puts.round.max(initial=0)) + 1, np.int64)
    np.maximum.at(rounds, puts.round, far)
    return int(rounds.sum()) / SLOWNESS


@lru_cache(4096)
def work_in_memory(collective: str, text: str, p: int, cores: int, staged: bool, windowed: bool = False) -> Work:
    """Of ranks that use each other's memory; staged, what others use is copied to a stage and results from there.

    Windowed, one rank works on a window while another one works on the next.
    """
    schedule = schedule_named(collective, text, p)
    programs = share_all(schedule)
    depths = _depths(programs)
    levels = 1 + max((int(depth.max(initial=0)) for depth in depths), default=0)
    book = _Book(np.zeros((4, levels, p), np.int64), _sizes(schedule), staged)
    for program, depth in zip(programs, depths, strict=True):
        book.enter(program, depth)
    one = _one(schedule, book.size)
    waits, *bytes_of_levels = book.entries
    moved, foreign, reduced = (
        entries.sum(axis=0, keepdims=True) if windowed else entries for entries in bytes_of_levels
    )
    return Work(
        rounds=float(levels - 1),
        messages_busiest=float(waits.max(axis=1).sum()),
        messages_shared=_of_levels(waits, cores) / cores,
        moved_busiest=int(moved.max(axis=1).sum()) / one,
        moved_shared=_of_levels(moved, cores) / (one * cores),
        foreign_shared=_of_levels(foreign, cores) / (one * cores),
        wire_in_step=0.0,
        wire_at_once=0.0,
        reduced=_of_levels(reduced, cores) / (one * cores),
    )


class _Book(NamedTuple):
    """Waits, and bytes moved, moved in the memory of others and reduced, by level of waits and by rank."""

    entries: Ints
    size: Ints
    staged: bool

    def enter(self, program: SharedProgram, depth: Ints) -> None:
        rank, size = program.rank, self.size[program.blocks]
        waits, moved, foreign, reduced = self.entries[:, :, rank]
        owner = program.places[:, 0]
        for (kind, first, second, third, fourth), level in zip(program.rows.tolist(), depth.tolist(), strict=True):
            if kind == Kind.WAIT:
                waits[level] += third == When.ALWAYS or (not self.staged and third != When.REUSED)
            elif kind == Kind.COMBINE:
                used = program.references[second : second + third + fourth]
                moved[level] += len(used) * size[first]
                foreign[level] += np.count_nonzero(owner[used] != rank) * size[first]
                reduced[level] += (third - 1) * size[first]
            elif kind != Kind.SIGNAL and self.staged:  # a copy to the stage or from one
                moved[level] += 2 * size[second]
                foreign[level] += size[second] if kind == Kind.FETCH and owner[third] != rank else 0


def _depths(programs: list[SharedProgram]) -> list[Ints]:
    """For every row, how many waits, one for the other, come before it."""
    rows = [program.rows.tolist() for program in programs]
    at, depth = [0] * len(rows), [0] * len(rows)  # by rank: the next row, and how deep it is
    depths = [np.zeros(len(program), np.int64) for program in rows]
    reached: list[list[tuple[int, int]]] = [[] for _ in rows]  # by rank: its steps, and how deep it was there
    moving = True
    while moving:
        moving = False
        for rank, program in enumerate(rows):
            while at[rank] < len(program):
                kind, first, second, when, _ = program[at[rank]]
                if kind == Kind.WAIT and when != When.REUSED:
                    there = next((deep for step, deep in reached[first] if step >= second), None)
                    if there is None:
                        break
                    depth[rank] = max(depth[rank], 1 + there)
                elif kind == Kind.SIGNAL:
                    reached[rank].append((first, depth[rank]))
                depths[rank][at[rank]] = depth[rank]
                at[rank] += 1
                moving = True
    return depths


def _sizes(schedule: Schedule) -> Ints:
    """Of each block, in a unit of which `_one` says how many a vector has; a barrier has no vector."""
    shares = np.ones(schedule.blocks, np.int64) if schedule.shares is None else np.asarray(schedule.shares, np.int64)
    return shares * min(1, schedule.collective.total(schedule.p, 1))


def _one(schedule: Schedule, size: Ints) -> float:
    return int(size.sum()) / (schedule.collective.total(schedule.p, 1) or 1) or 1.0


def _bytes(moves: Messages, size: Ints) -> Ints:
    """Of cyclic runs of blocks."""
    until = np.concatenate([[0], np.cumsum(np.concatenate([size, size]))])
    return np.asarray(until[moves.first + moves.count] - until[moves.first])


def _of_busiest(done: Ints, machines: Ints) -> int:
    """What the ranks of the busiest machine do."""
    sums = np.zeros(int(machines.max()) + 1, np.int64)
    np.add.at(sums, machines, done)
    return int(sums.max())


def _of_levels(done: Ints, cores: int) -> int:
    """Level by level, of all ranks or of as many as there are cores if all did as much as the busiest."""
    return int(np.maximum(done.max(axis=1) * cores, done.sum(axis=1)).sum())
