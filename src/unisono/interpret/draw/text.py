"""Pictures for a terminal: plain text, a table per round."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby, zip_longest

import numpy as np

from ...schedule.ir import Ints
from ...schedule.schedule import Table
from ..machine import DEFAULT, Machine
from .scene import Mask, tell
from .story import Cell, Crop, Frame, Grid, Limits, Message, Story, name_blocks, plural
from .timeline import Floats, Timeline, describe, format_seconds, schedule_time

WIDTH = 100
MOST_LINES = 240
MOST_RANKS = 16
GAP = "   "
IDLE, STARTUP, TRANSIT, REDUCING = "·▒█▚"


def draw_text(table: Table, *, width: int = WIDTH) -> str:
    """Before and after, and for each round what every rank sends and what it holds then."""
    ranks = min(table.p, MOST_RANKS)
    rounds = max(4, MOST_LINES // (ranks + 3))
    story = tell(table, Limits(ranks=MOST_RANKS, blocks=max(2, (width - 35) // 3), rounds=rounds, messages=1000))
    ends = [["before", *_table(story.before)], ["after", *_table(_result(story.after))]]
    panels = [_panel(story, frame) for frame in story.frames]
    if story.rounds.left_out:
        panels.insert(story.rounds.gap, [f"… {plural(story.rounds.left_out, 'more round')} …"])
    lines = [story.title, "", *_side_by_side(ends, width), "", *_side_by_side(panels, width), "", *_legend(story)]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def draw_spacetime_text(table: Table, nbytes: int, machine: Machine = DEFAULT, *, width: int = WIDTH) -> str:
    """A row of time for what each rank sends, and one for what it receives."""
    timeline = schedule_time(table, nbytes, machine)
    lines = [describe(timeline)]
    if timeline.total > 0:
        columns = max(10, width - 14)
        lanes = [_lanes(timeline, rank, columns) for rank in range(table.p)]
        groups = [list(same) for _, same in groupby(range(table.p), key=lambda rank: lanes[rank])]
        crop = Crop.of(len(groups), MOST_RANKS)
        for i, group in enumerate(groups[k] for k in crop.kept):
            if crop.left_out and i == crop.gap:
                lines.append(f"… {plural(crop.left_out, 'more row')} …")
            send, receive = lanes[group[0]]
            ranks = f"{group[0]}-{group[-1]}" if len(group) > 1 else f"{group[0]}"
            lines += [f"{ranks:>7} send  {send}", f"{'':>7} recv  {receive}"]
        end = format_seconds(timeline.total)
        lines.append(f"{'':>14}0{end:>{columns - 1}}")
        lines.append(f"{STARTUP} start-up   {TRANSIT} transit   {REDUCING} reducing   {IDLE} idle")
    return "\n".join(lines) + "\n"


def _lanes(timeline: Timeline, rank: int, columns: int) -> tuple[str, str]:
    """What a rank's two lanes do in the middle of each column of time."""
    time = (np.arange(columns) + 0.5) * timeline.total / columns
    round_ = np.searchsorted(timeline.start, time, side="right") - 1
    since = time - timeline.start[round_]
    first = _first_columns(round_, columns)
    over = (timeline.startup + timeline.transit)[round_, rank]
    reducing = (since >= over) & (since < over + timeline.reduced[round_, rank])

    def lane(startup: Floats, transit: Floats, reducing: Mask) -> str:
        starting = (since < startup) | (first & (startup > 0))
        states = np.select([starting, since < startup + transit, reducing], [1, 2, 3], 0)
        return "".join((IDLE, STARTUP, TRANSIT, REDUCING)[state] for state in states)

    return (
        lane(timeline.starting_out[round_, rank], timeline.out[round_, rank], reducing & False),
        lane(timeline.starting_in[round_, rank], timeline.into[round_, rank], reducing),
    )


def _first_columns(round_: Ints, columns: int) -> Mask:
    """A start-up that is shorter than a column is shown as one, as long as rounds have room for it."""
    first: Mask = np.diff(round_, prepend=-1) > 0
    return first if 4 * first.sum() <= columns else np.zeros_like(first)


def _panel(story: Story, frame: Frame) -> list[str]:
    sends = {rank: "" for rank, _ in frame.grid.rows}
    for rank, messages in groupby(frame.messages, key=lambda message: message.source):
        if rank in sends:
            sends[rank] = _sends(list(messages), story.table.blocks)
    head = f"round {frame.round + 1}: {story.badge(frame)}"
    return [head, *_table(frame.grid, sends)]


def _sends(messages: list[Message], total: int) -> str:
    """What one rank sends in a round: "b3 → 1", or "b3 → 1,2,4 +9" for many."""
    sizes = {len(message.blocks) for message in messages}
    if len({message.blocks for message in messages}) == 1:
        blocks = name_blocks(messages[0].blocks, total)
    else:
        blocks = plural(sizes.pop(), "block") + " each" if len(sizes) == 1 else "other blocks each"
    blocks += "*" * messages[0].borrowed
    arrow = "⇒" if messages[0].reduces else "→"
    more = f" +{len(messages) - 3}" if len(messages) > 3 else ""
    return f"{blocks} {arrow} " + ",".join(str(message.target) for message in messages[:3]) + more


def _table(grid: Grid, sends: dict[int, str] | None = None) -> list[str]:
    """A grid as lines, with what each rank sent in front of what it holds."""
    prefix = "b" if all(cell.block < 10 for _, row in grid.rows for cell in row) else ""
    labels = [] if grid.own else [f"{prefix}{cell.block}" for cell in grid.rows[0][1]]
    cells = max(map(len, [*labels, *(_symbol(cell, grid) for _, row in grid.rows for cell in row)])) + 1
    column = max([len("sends"), *map(len, sends.values())]) + 2 if sends is not None else 0
    lines = [f"rank  {'sends' if sends is not None else '':<{column}}" + _row(labels, grid.columns, cells)]
    for i, (rank, row) in enumerate(grid.rows):
        if grid.ranks.left_out and i == grid.ranks.gap:
            lines.append(f"   …  {plural(grid.ranks.left_out, 'more rank')}")
        text = sends[rank] if sends is not None else ""
        lines.append(f"{rank:>4}  {text:<{column}}" + _row([_symbol(cell, grid) for cell in row], grid.columns, cells))
    return lines


def _row(texts: list[str], columns: Crop, width: int) -> str:
    padded = [f"{text:>{width}}" for text in texts]
    if columns.left_out and texts:
        padded.insert(columns.gap, " …")
    return "".join(padded)


def _symbol(cell: Cell, grid: Grid) -> str:
    if cell.spoilt:
        return "×"
    if cell.held == 0:
        return "·"
    if grid.own:
        return str(cell.block)
    if cell.held == cell.whole:
        return "●"
    return "○" if cell.held == 1 else str(cell.held)


def _result(grid: Grid) -> Grid:
    """Only what the collective promises; the rest is nobody's business in the end."""
    rows = [(rank, [cell if cell.promised else cell._replace(held=0) for cell in row]) for rank, row in grid.rows]
    return grid._replace(rows=rows)


def _side_by_side(panels: list[list[str]], width: int) -> Iterator[str]:
    """Panels in as many columns as fit."""
    widest = max((len(line) for panel in panels for line in panel), default=1)
    columns = max(1, (width + len(GAP)) // (widest + len(GAP)))
    for i in range(0, len(panels), columns):
        if i:
            yield ""
        for lines in zip_longest(*panels[i : i + columns], fillvalue=""):
            yield GAP.join(f"{line:<{widest}}" for line in lines)


def _legend(story: Story) -> Iterable[str]:
    grid = story.after
    if grid.own:
        yield "a number is a block that the rank holds of those it is to get   · not yet"
    elif story.goal > 1:
        yield f"· nothing   ○ one contribution   2 … sum of so many   ● all that belong there (up to {story.goal})"
    else:
        yield "· nothing   ● the block"
    messages = [message for frame in story.frames for message in frame.messages]
    arrows = ["→ copied"] if any(not message.reduces for message in messages) else []
    arrows += ["⇒ added to what is there"] if any(message.reduces for message in messages) else []
    arrows += ["* from scratch memory or the input"] if any(message.borrowed for message in messages) else []
    yield "   ".join(arrows)
    if any(cell.spoilt for _, row in grid.rows for cell in row):
        yield "× wrong: see verify"
    if grid.columns.left_out:
        yield f"… {plural(grid.columns.left_out, 'more block')} left out"
