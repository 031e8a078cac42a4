"""How much memory a schedule needs besides the caller's own."""

from __future__ import annotations

import numpy as np

from ..schedule.conditions import Place
from ..schedule.ir import DATA, Ints
from ..schedule.schedule import Table
from .replay import Replay


def extra_memory(table: Table, nbytes: int) -> Ints:
    """The most scratch bytes that each rank has in use at once, for a vector of ``nbytes``.

    A block is scratch if the collective does not promise it to the caller; it is in use from the round that first
    writes it to the round that last needs it.
    """
    replay = Replay(table)
    written = np.concatenate([replay.gets.cell, replay.moves.cell])
    written_in = np.concatenate([replay.gets.round, replay.moves.round])
    read = np.concatenate([replay.puts.cell, replay.sources.cell])
    read_in = np.concatenate([replay.puts.round, replay.sources.round])

    cells = np.unique(written)
    space, rank, block = np.unravel_index(cells, (len(replay.spaces), table.p, table.blocks))
    low, high = table.collective.after(Place(table.p, rank, block, table.root, table.workers))
    promised = (replay.spaces[space] == DATA) & (np.broadcast_to(low, cells.shape) < high)
    cells, rank, block = cells[~promised], rank[~promised], block[~promised]

    begin = np.full(len(cells), table.rounds)
    end = np.zeros(len(cells), int)
    _merge(np.minimum, begin, cells, written, written_in)
    _merge(np.maximum, end, cells, written, written_in)
    _merge(np.maximum, end, cells, read, read_in)

    size = table.layout(nbytes).nbytes(block, np.ones_like(block))
    change = np.zeros((table.rounds + 1, table.p), np.int64)
    np.add.at(change, (begin, rank), size)
    np.subtract.at(change, (end + 1, rank), size)
    return np.asarray(np.cumsum(change, axis=0).max(axis=0))


def _merge(choose: np.ufunc, into: Ints, cells: Ints, touched: Ints, when: Ints) -> None:
    """Let ``into[i]`` become the least or greatest round in which ``cells[i]`` is touched."""
    place = np.searchsorted(cells, touched)
    known = place < len(cells)
    known[known] = cells[place[known]] == touched[known]
    choose.at(into, place[known], when[known])
