"""Replays a schedule and tells its story."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ...errors import ConfigError
from ...schedule.conditions import Place
from ...schedule.ir import COPY, DATA, Ints
from ...schedule.schedule import Table
from ..replay import WORD, Replay
from .story import Cell, Crop, Frame, Grid, Limits, Message, Story, plural

Mask = NDArray[np.bool_]

LARGEST = 1 << 24
"""No picture is drawn of more words of contributor bits, or of more rounds times ranks, than this."""


def tell(table: Table, limits: Limits) -> Story:
    """Replay a schedule and keep what a picture shows."""
    words = table.p * table.blocks * -(-table.p // WORD)
    if max(words, table.p * table.rounds) > LARGEST:
        facts = f"{plural(table.p, 'rank')}, {plural(table.blocks, 'block')} and {plural(table.rounds, 'round')}"
        raise ConfigError(f"{facts} are too many for a picture; draw the schedule for fewer ranks")
    replay = Replay(table)
    scene = _Scene(replay, limits)
    before = scene.before()
    rounds = Crop.of(table.rounds, limits.rounds)
    shown = set(rounds.kept)
    frames = [scene.frame(round_) for round_ in replay.rounds() if round_ in shown]
    return Story(table, before, scene.grid(table.rounds), frames, rounds, scene.goal, int(scene.promised.sum()))


class _Scene:
    """A replay, seen through the crop of a picture."""

    def __init__(self, replay: Replay, limits: Limits) -> None:
        table = replay.table
        self.replay, self.table, self.limits = replay, table, limits
        self.ranks = Crop.of(table.p, limits.ranks)
        rank, block = np.arange(table.p)[:, None], np.arange(table.blocks)
        place = Place(table.p, rank, block, table.root, table.workers)
        self.low, high = (np.broadcast_to(x, (table.p, table.blocks)) for x in table.collective.after(place))
        self.needed = high - self.low
        self.promised: Mask = self.needed > 0
        self.whole = np.where(self.promised, self.needed, np.maximum(self.needed.max(axis=0), 1))
        self.goal = int(self.whole.max())
        starts = self._held() > 0
        widest = max(int(mask.sum(axis=1).max()) for mask in (starts, self.promised))
        self.own = 2 * widest < table.blocks
        """Where no rank ever deals with half of the blocks (all-to-all), most columns would be empty."""
        self.starts = starts

    def before(self) -> Grid:
        return self._grid(self.starts, round_=-1)

    def grid(self, round_: int) -> Grid:
        return self._grid(self.promised, round_)

    def frame(self, round_: int) -> Frame:
        messages = list(self._messages(round_))
        summed = int(np.where(self._data(self.replay.state.spoilt) == 0, self._held(), 0).max())
        kept = messages[: self.limits.messages]
        return Frame(round_, kept, len(messages), self.grid(round_), summed, int(self._done().sum()))

    def _data(self, column: Ints) -> Ints:
        cells = self.table.p * self.table.blocks
        return column[:cells].reshape(self.table.p, self.table.blocks)

    def _held(self) -> Ints:
        cells = self.table.p * self.table.blocks
        return self._data(np.bitwise_count(self.replay.state.held[:cells]).sum(axis=1, dtype=np.int64))

    def _done(self) -> Mask:
        state = self.replay.state
        exact = (self._data(state.lowest) == self.low) & (self._data(state.highest) == self.low + self.needed - 1)
        right: Mask = self.promised & exact & (self._held() == self.needed) & (self._data(state.spoilt) == 0)
        return right

    def _grid(self, own: Mask, round_: int) -> Grid:
        done, spoilt = self._done(), self._data(self.replay.state.spoilt) > 0
        lowest = self._data(self.replay.state.lowest)
        arrived = self._data(self.replay.written) == round_ if round_ >= 0 else np.zeros_like(done)
        columns = (self._held(), self.whole, lowest, self.promised, done, spoilt, arrived)
        width = int(own.sum(axis=1).max()) if self.own else self.table.blocks
        crop = Crop.of(width, self.limits.blocks)
        rows = []
        for rank in self.ranks.kept:
            blocks = np.flatnonzero(own[rank]) if self.own else np.arange(self.table.blocks)
            kept = blocks[[i for i in crop.kept if i < len(blocks)]]
            cells = zip(kept.tolist(), *(column[rank, kept].tolist() for column in columns), strict=True)
            rows.append((rank, [Cell(*cell) for cell in cells]))
        return Grid(rows, self.ranks, crop, self.own)

    def _messages(self, round_: int) -> Iterator[Message]:
        """A message per pair, in the order of the senders."""
        table = self.table
        gets = slice(*np.searchsorted(table.gets.round, (round_, round_ + 1)))
        columns = (column[gets].tolist() for column in (table.gets.how, table.gets.peer, table.gets.rank))
        adding = {(peer, rank) for how, peer, rank in zip(*columns, strict=True) if how != COPY}
        puts = self.replay.puts.within(round_)
        peer, space = table.puts.peer[puts.row], table.puts.space[puts.row]
        order = np.lexsort((peer, puts.rank))
        pair = (puts.rank * table.p + peer)[order]
        for part in np.split(order, np.flatnonzero(np.diff(pair)) + 1) if len(order) else []:
            source, target = int(puts.rank[part[0]]), int(peer[part[0]])
            borrowed = bool((space[part] != DATA).any())
            yield Message(source, target, tuple(puts.block[part].tolist()), (source, target) in adding, borrowed)
