"""Run a schedule on symbols: whose contributions does each block of each rank hold, round after round?

A contribution is a bit. Where the schedule does something that has no one right result (it uses a block that nobody
filled, counts a contribution twice, lets a write race, or puts a block in another's place), the block that comes of
it is *spoilt* and remembers by which problem. Spoilt data that never reaches a result does no harm.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..schedule.conditions import Place
from ..schedule.ir import COPY, DATA, INPUT, REDUCE_AFTER, REDUCE_BEFORE, Ints
from ..schedule.schedule import Messages, Moves, Table

WORD = 64


@dataclass(frozen=True)
class Problem:
    """Something wrong with a schedule, and where: ranks, blocks and rounds count from 0, and round -1 is none at all.

    As text, rounds count from 1, as they do in pictures.
    """

    kind: str
    round: int
    rank: int
    block: int
    text: str

    def __str__(self) -> str:
        when = f"round {self.round + 1}" if self.round >= 0 else "never written"
        return f"{when}, rank {self.rank}, block {self.block}: {self.kind}: {self.text}"


@dataclass
class Value:
    """What cells hold: the set of contributors in words of 64 bits, and whether it was reduced in rank order."""

    held: NDArray[np.uint64]
    spoilt: Ints  # 0, or 1 + the index of the problem that spoilt it
    ordered: NDArray[np.bool_]
    lowest: Ints
    highest: Ints

    def __getitem__(self, cells: Ints) -> Value:
        return Value(*(column[cells] for column in vars(self).values()))

    def put(self, cells: Ints, value: Value) -> None:
        for column, new in zip(vars(self).values(), vars(value).values(), strict=True):
            column[cells] = new

    @property
    def empty(self) -> NDArray[np.bool_]:
        return np.asarray((self.spoilt == 0) & ~self.held.any(axis=1))

    def differs(self, other: Value) -> NDArray[np.bool_]:
        return np.asarray((self.held != other.held).any(axis=1) | (self.spoilt != other.spoilt))


class Blocks(NamedTuple):
    """Operations of one kind, expanded to single blocks: ``row`` is the operation, ``cell`` where the block lies."""

    round: Ints
    row: Ints
    rank: Ints
    block: Ints
    cell: Ints

    def within(self, round_: int) -> Blocks:
        part = slice(*np.searchsorted(self.round, (round_, round_ + 1)))
        return Blocks(*(column[part] for column in self))

    def take(self, index: NDArray[np.intp] | NDArray[np.bool_]) -> Blocks:
        return Blocks(*(column[index] for column in self))


class Replay:
    """The state of all cells, and the problems met so far. A cell is a block in a space of a rank."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.problems: list[Problem] = []
        self.fatal: list[Problem] = []
        used = (table.puts.space, table.gets.space, table.moves.space, table.moves.source)
        self.spaces = np.unique(np.concatenate([[DATA, INPUT], *used]))
        self.puts = self._expand(table.puts, table.puts.space)
        self.gets = self._expand(table.gets, table.gets.space)
        self.moves = self._expand(table.moves, table.moves.space)
        self.sources = self._expand(table.moves, table.moves.source)

    def cell(self, space: int | Ints, rank: int | Ints, block: int | Ints) -> Ints:
        place = np.searchsorted(self.spaces, space)
        return np.asarray((place * self.table.p + rank) * self.table.blocks + block)

    def rounds(self) -> Iterator[int]:
        """Run round after round; yields the number of each round when it is over."""
        for round_ in range(self.table.rounds):
            self._move(round_)
            self._exchange(round_)
            yield round_

    def _expand(self, rows: Messages | Moves, space: Ints) -> Blocks:
        row = np.repeat(np.arange(len(rows.count)), rows.count)
        offset = np.arange(len(row)) - np.repeat(np.cumsum(rows.count) - rows.count, rows.count)
        block = (rows.first[row] + offset) % self.table.blocks
        return Blocks(rows.round[row], row, rows.rank[row], block, self.cell(space[row], rows.rank[row], block))

    @cached_property
    def written(self) -> Ints:
        """The round that wrote each cell last; -1 if none did."""
        return np.full(len(self.state.spoilt), -1)

    @cached_property
    def state(self) -> Value:
        """What every cell holds. DATA and INPUT start with each rank's own contribution."""
        p, blocks = self.table.p, self.table.blocks
        rank, block = np.arange(p)[:, None], np.arange(blocks)
        place = Place(p, rank, block, self.table.root, self.table.workers)
        starts = np.broadcast_to(self.table.collective.before(place), (p, blocks))
        words = -(-p // WORD)
        held = np.zeros((len(self.spaces), p, blocks, words), np.uint64)
        bit = np.uint64(1) << (np.arange(p) % WORD).astype(np.uint64)
        for space in (0, 1):
            held[space, np.arange(p), :, np.arange(p) // WORD] = np.where(starts, bit[:, None], 0)
        cells = len(self.spaces) * p * blocks
        ranks = np.broadcast_to(rank, (len(self.spaces), p, blocks)).reshape(-1).copy()
        return Value(held.reshape(cells, words), np.zeros(cells, int), np.ones(cells, bool), ranks, ranks.copy())

    def _move(self, round_: int) -> None:
        """The Dos of a rank run one after the other, since one may use what another wrote."""
        moves, sources = self.moves.within(round_), self.sources.within(round_)
        how = self.table.moves.how
        rows, row = np.unique(moves.row, return_inverse=True)
        for turn in _layers(self.table.moves.rank[rows]):
            layer = np.flatnonzero(np.isin(row, turn))
            target = moves.take(layer)
            self._write(target, self.state[sources.cell[layer]], how[target.row], target.rank)

    def _exchange(self, round_: int) -> None:
        puts, gets = self._matched(self.puts.within(round_), self.gets.within(round_))
        arriving = self.state[puts.cell]
        self._spoil_misplaced(puts, gets, arriving)
        exposed = np.flatnonzero(np.isin(puts.cell, gets.cell))  # Puts of what is also written in this round
        sent = puts.cell[exposed]
        before = self.state[sent]
        how = self.table.gets.how
        layers = _layers(gets.cell)
        clashing = _clashing(gets.cell, how[gets.row], arriving, layers)
        overtaken, reported = np.zeros(len(sent), bool), np.zeros(len(sent), bool)
        for layer in layers:
            target = gets.take(layer)
            self._write(target, arriving[layer], how[target.row], puts.rank[layer])
            overtaken |= self._changed(sent, before)
        for i in np.flatnonzero(clashing):
            self._spoil(gets, i, "race", "several Gets write it in one round, and not all but the first reduce")
        # A block that a race spoils may itself be sent in this round, so one race can lead to the next.
        while (new := (overtaken | self._changed(sent, before)) & ~reported).any():
            for i in exposed[new]:
                text = f"rank {puts.rank[i]} sends the block and overwrites it in the same round"
                self._spoil(gets, i, "race", text)
            reported |= new

    def _changed(self, cells: Ints, before: Value) -> NDArray[np.bool_]:
        """Which cells are not what they were. Where counting twice does no harm, holding more does none either."""
        now = self.state[cells]
        if self.table.collective.idempotent:
            return np.asarray((before.held & ~now.held).any(axis=1) | (before.spoilt != now.spoilt))
        return now.differs(before)

    def _write(self, target: Blocks, arriving: Value, how: Ints, source: Ints) -> None:
        """Copy or reduce into distinct cells."""
        present = self.state[target.cell]
        copied = how == COPY
        for i in np.flatnonzero(arriving.empty):
            arriving.spoilt[i] = self._note(target, i, "unfilled", f"rank {source[i]} passes it on before it holds it")
        for i in np.flatnonzero(present.empty & ~copied):
            present.spoilt[i] = self._note(target, i, "unfilled", "is reduced into before the rank holds it")
        if not self.table.collective.idempotent:
            both = present.held & arriving.held
            for i in np.flatnonzero(both.any(axis=1) & ~copied & (arriving.spoilt == 0) & (present.spoilt == 0)):
                text = f"{name_ranks(both[i])} counted twice, by what came from rank {source[i]}"
                arriving.spoilt[i] = self._note(target, i, "doubled", text)
        arriving_on_left = (arriving.highest < present.lowest) & (how == REDUCE_BEFORE)
        arriving_on_right = (arriving.lowest > present.highest) & (how == REDUCE_AFTER)
        reduced = Value(
            present.held | arriving.held,
            np.where(present.spoilt > 0, present.spoilt, arriving.spoilt),
            present.ordered & arriving.ordered & (arriving_on_left | arriving_on_right),
            np.minimum(present.lowest, arriving.lowest),
            np.maximum(present.highest, arriving.highest),
        )
        self.state.put(target.cell[~copied], reduced[~copied])
        self.state.put(target.cell[copied], arriving[copied])
        self.written[target.cell] = target.round

    def _matched(self, puts: Blocks, gets: Blocks) -> tuple[Blocks, Blocks]:
        """Each Put beside its Get, in the order of the Gets; what meets nothing is a fatal problem, and left out."""
        p = self.table.p
        put_pair = puts.rank * p + self.table.puts.peer[puts.row]
        get_pair = self.table.gets.peer[gets.row] * p + gets.rank
        puts, put_pair = puts.take(order := np.argsort(put_pair, kind="stable")), put_pair[order]
        gets, get_pair = gets.take(order := np.argsort(get_pair, kind="stable")), get_pair[order]
        if not np.array_equal(put_pair, get_pair):
            good = self._matching_pairs(puts, gets, put_pair, get_pair)
            puts, gets = puts.take(np.isin(put_pair, good)), gets.take(np.isin(get_pair, good))
        listed = np.argsort(gets.row, kind="stable")
        return puts.take(listed), gets.take(listed)

    def _matching_pairs(self, puts: Blocks, gets: Blocks, put_pair: Ints, get_pair: Ints) -> Ints:
        p = self.table.p
        pairs = np.union1d(put_pair, get_pair)
        sent = np.searchsorted(put_pair, pairs, "right") - np.searchsorted(put_pair, pairs)
        awaited = np.searchsorted(get_pair, pairs, "right") - np.searchsorted(get_pair, pairs)
        for pair, put_count, get_count in zip(pairs, sent, awaited, strict=True):
            if put_count != get_count:
                side = puts.take(put_pair == pair) if put_count else gets.take(get_pair == pair)
                text = f"rank {pair // p} puts {put_count} blocks to rank {pair % p}, which gets {get_count}"
                self.fatal.append(Problem("unmatched", int(side.round[0]), int(side.rank[0]), int(side.block[0]), text))
        return np.asarray(pairs[sent == awaited])

    def _spoil_misplaced(self, puts: Blocks, gets: Blocks, arriving: Value) -> None:
        """A message is one stream: where it is cut in another order, whatever lies between is shifted, too."""
        pair = puts.rank * self.table.p + gets.rank
        for message in (np.flatnonzero(pair == x) for x in np.unique(pair[puts.block != gets.block])):
            known = len(self.problems)
            surplus: Counter[int] = Counter()  # how often each block was sent so far, less how often it was awaited
            for i in message:
                sent, awaited = int(puts.block[i]), int(gets.block[i])
                if sent != awaited or any(surplus.values()):
                    what = f"block {sent}" if sent != awaited else "a part of another block"
                    text = f"{what} of rank {puts.rank[i]} arrives in its place"
                    arriving.spoilt[i] = self._note(gets, i, "misplaced", text)
                surplus[sent] += 1
                surplus[awaited] -= 1
            if any(surplus.values()):
                self.fatal += self.problems[known:]

    def _spoil(self, blocks: Blocks, i: np.intp, kind: str, text: str) -> None:
        self.state.spoilt[blocks.cell[i]] = self._note(blocks, i, kind, text)

    def _note(self, blocks: Blocks, i: np.intp, kind: str, text: str) -> int:
        self.problems.append(Problem(kind, int(blocks.round[i]), int(blocks.rank[i]), int(blocks.block[i]), text))
        return len(self.problems)


def _layers(cells: Ints) -> list[NDArray[np.intp]]:
    """Split writes into layers that touch each cell at most once, in the listed order."""
    if len(cells) < 2:
        return [np.arange(len(cells))] if len(cells) else []
    order = np.argsort(cells, kind="stable")
    new = np.flatnonzero(np.diff(cells[order], prepend=cells[order[0]] - 1))
    turn = np.empty(len(cells), int)
    turn[order] = np.arange(len(cells)) - np.repeat(new, np.diff(new, append=len(cells)))
    return [np.flatnonzero(turn == k) for k in range(turn.max() + 1)]


def _clashing(cells: Ints, how: Ints, arriving: Value, layers: list[NDArray[np.intp]]) -> NDArray[np.bool_]:
    """Which writes share their cell with a later one that does not reduce, unless all copy the same."""
    clashing = np.zeros(len(cells), bool)
    for layer in layers[1:]:
        for i in layer[how[layer] == COPY]:
            same_cell = np.flatnonzero(cells == cells[i])
            same_value = not arriving[same_cell].differs(arriving[np.full(len(same_cell), i)]).any()
            clashing[i] = not (same_value and (how[same_cell] == COPY).all())
    return clashing


def name_ranks(bits: NDArray[np.uint64]) -> str:
    """The ranks whose bits are set, the first eight by number; empty if none is."""
    ranks = np.flatnonzero(np.unpackbits(bits.view(np.uint8), bitorder="little")).tolist()
    shown = ", ".join(map(str, ranks[:8])) + (", …" if len(ranks) > 8 else "")
    return f"rank{'s' * (len(ranks) > 1)} {shown}" if ranks else ""
