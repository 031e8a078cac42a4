"""Random edits of a schedule, such as a slip of the pen would make."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np

from unisono.schedule.ir import COPY, REDUCE_AFTER, REDUCE_BEFORE, TEMP
from unisono.schedule.schedule import Messages, Moves, Table

Row = dict[str, int]


class Draft:
    """A table as lists of rows that can be edited, and the choices of one edit."""

    def __init__(self, table: Table, rng: Random) -> None:
        self.table, self.rng = table, rng
        self.puts, self.gets, self.moves = (_rows(part) for part in (table.puts, table.gets, table.moves))

    def side(self) -> list[Row]:
        """The Puts or the Gets."""
        return self.rng.choice((self.puts, self.gets))

    def messages(self) -> list[tuple[Row, Row]]:
        """Every Put beside the Get of the same blocks; there may be several for a pair and round."""
        waiting: dict[tuple[int, ...], list[Row]] = {}
        for get in self.gets:
            waiting.setdefault((get["round"], get["peer"], get["rank"], get["first"], get["count"]), []).append(get)
        pairs = []
        for put in self.puts:
            if same := waiting.get((put["round"], put["rank"], put["peer"], put["first"], put["count"])):
                pairs.append((put, same.pop(0)))
        return pairs

    def message(self) -> tuple[Row, Row]:
        return self.rng.choice(self.messages())

    def other(self, present: int, choices: range) -> int:
        """Another one of the choices."""
        return self.rng.choice([choice for choice in choices if choice != present])

    def reblock(self, *rows: Row) -> None:
        """Begin at another block, or end at another."""
        name = self.rng.choice(("first", "count"))
        choices = range(1, self.table.blocks + 1) if name == "count" else range(self.table.blocks)
        chosen = self.other(rows[0][name], choices)
        for row in rows:
            row[name] = chosen

    def two(self, rows: list[Any]) -> tuple[Any, Any]:
        a, b = self.rng.sample(rows, 2)
        return a, b

    def finished(self) -> Table:
        parts = (_table(Messages, self.puts), _table(Messages, self.gets), _table(Moves, self.moves))
        return replace(self.table, puts=parts[0], gets=parts[1], moves=parts[2])


def drop_one_side(draft: Draft) -> None:
    rows = draft.side()
    rows.pop(draft.rng.randrange(len(rows)))


def drop_message(draft: Draft) -> None:
    put, get = draft.message()
    _remove(draft.puts, put)
    _remove(draft.gets, get)


def drop_move(draft: Draft) -> None:
    draft.moves.pop(draft.rng.randrange(len(draft.moves)))


def swap_on_one_side(draft: Draft) -> None:
    a, b = draft.two(draft.rng.choice([rows for rows in (draft.puts, draft.gets, draft.moves) if len(rows) > 1]))
    _swap(a, b, draft.rng.choice(_SWAPPABLE if "peer" in a else _SWAPPABLE[1:]))


def swap_messages(draft: Draft) -> None:
    (put, get), (other_put, other_get) = draft.two(draft.messages())
    names = draft.rng.choice(_SWAPPABLE[1:])
    _swap(put, other_put, names)
    _swap(get, other_get, names)


def swap_order(draft: Draft) -> None:
    """Two rows of a rank and round change places in the list."""
    rows = draft.rng.choice((draft.puts, draft.gets, draft.moves))
    pairs = [
        (i, j) for j in range(len(rows)) for i in range(j) if all(rows[i][x] == rows[j][x] for x in ("round", "rank"))
    ]
    i, j = draft.rng.choice(pairs)
    rows[i], rows[j] = rows[j], rows[i]


def redirect_one_side(draft: Draft) -> None:
    row = draft.rng.choice(draft.side())
    row["peer"] = draft.other(row["peer"], range(draft.table.p))


def redirect_message(draft: Draft) -> None:
    put, get = draft.message()
    if draft.rng.random() < 0.5:
        put["peer"] = get["rank"] = draft.other(get["rank"], range(draft.table.p))
    else:
        put["rank"] = get["peer"] = draft.other(put["rank"], range(draft.table.p))


def reblock_one_side(draft: Draft) -> None:
    draft.reblock(draft.rng.choice(draft.side()))


def reblock_message(draft: Draft) -> None:
    draft.reblock(*draft.message())


def insert_move(draft: Draft) -> None:
    """A local move that nobody asked for, before or after the others of its round."""
    table, choose = draft.table, draft.rng.randrange
    space, source = draft.rng.sample(range(TEMP + 2), 2)
    spot = {"round": choose(table.rounds), "rank": choose(table.p), "first": choose(table.blocks), "count": 1}
    draft.moves.insert(choose(len(draft.moves) + 1), spot | {"space": space, "source": source, "how": choose(3)})


def move_to_another_space(draft: Draft) -> None:
    row = draft.rng.choice(draft.rng.choice((draft.puts, draft.gets, draft.moves)))
    row["space"] = draft.other(row["space"], range(TEMP + 2))


def flip_reduce(draft: Draft) -> None:
    row = draft.rng.choice(draft.gets + draft.moves)
    row["how"] = draft.rng.choice((REDUCE_BEFORE, REDUCE_AFTER)) if row["how"] == COPY else COPY


def flip_order(draft: Draft) -> None:
    row = draft.rng.choice([row for row in draft.gets + draft.moves if row["how"] != COPY])
    row["how"] = REDUCE_AFTER if row["how"] == REDUCE_BEFORE else REDUCE_BEFORE


def shift_message(draft: Draft) -> None:
    put, get = draft.message()
    put["round"] = get["round"] = draft.other(put["round"], range(draft.table.rounds))


def duplicate_message(draft: Draft) -> None:
    """The same message again, in its round or in another."""
    put, get = map(dict, draft.message())
    if draft.rng.random() < 0.5:
        put["round"] = get["round"] = draft.rng.randrange(draft.table.rounds)
    draft.puts.append(put)
    draft.gets.append(get)


EDITS: tuple[Callable[[Draft], None], ...] = (
    drop_one_side,
    drop_message,
    drop_move,
    swap_on_one_side,
    swap_messages,
    swap_order,
    redirect_one_side,
    redirect_message,
    reblock_one_side,
    reblock_message,
    insert_move,
    move_to_another_space,
    flip_reduce,
    flip_order,
    shift_message,
    duplicate_message,
)


def mutated(table: Table, edit: Callable[[Draft], None], rng: Random) -> Table | None:
    """The table after one edit; None if the edit is impossible there or changes nothing."""
    draft = Draft(table, rng)
    try:
        edit(draft)
    except (IndexError, ValueError):  # nothing to choose from
        return None
    result = draft.finished()
    same = (np.array_equal(getattr(result, x), getattr(table, x)) for x in ("puts", "gets", "moves"))
    return None if all(same) else result


_SWAPPABLE = (("peer",), ("first", "count"), ("round",))


def _swap(a: Row, b: Row, names: tuple[str, ...]) -> None:
    for name in names:
        a[name], b[name] = b[name], a[name]


def _remove(rows: list[Row], row: Row) -> None:
    del rows[next(i for i, candidate in enumerate(rows) if candidate is row)]


def _rows(part: Messages | Moves) -> list[Row]:
    return [
        dict(zip(part._fields, row, strict=True)) for row in zip(*(column.tolist() for column in part), strict=True)
    ]


def _table(kind: type, rows: list[Row]) -> Any:
    rows = sorted(rows, key=lambda row: row["round"])
    return kind(*(np.array([row[name] for row in rows], int) for name in kind._fields))
