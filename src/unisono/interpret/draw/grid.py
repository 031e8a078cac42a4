"""SVG of who holds what: ranks × blocks, before, after and in every round, with the round's messages on a circle."""

from __future__ import annotations

from math import cos, hypot, pi, sin

from .story import Cell, Crop, Frame, Grid, Message, Story, name_blocks, plural
from .svg import DONE, FAINT, INK, NEW, PAPER, PART, REDUCING, SOFT, TRANSIT, WRONG, Svg, arrowhead, box, number

SMALL = 13.5
"""Pixels of a cell that has just room for two digits."""
ROW_LABEL = 26
HEAD = 16
BEND = 0.13
LABELLED = 16
"""So many ranks are drawn as numbered circles, more of them as dots."""


def draw_grid(
    svg: Svg,
    grid: Grid,
    x: float,
    y: float,
    size: float,
    *,
    result_only: bool = False,
    symbols: bool = False,
    axes: bool = True,
) -> None:
    """Cells of so many pixels, with a row and a column of labels; the fill is the share of contributions held."""
    paths: dict[str, list[str]] = {name: [] for name in ("outline", "part", "done", "wrong", "arrived")}
    texts: list[tuple[float, float, str, str]] = []
    for i, (_, row) in enumerate(grid.rows):
        for j, cell in enumerate(row):
            left, top = x + ROW_LABEL + _offset(j, grid.columns, size), y + HEAD + _offset(i, grid.ranks, size)
            paths["outline"].append(box(left, top, size, size))
            if result_only and not cell.promised:
                continue
            kind, level = _fill(cell)
            if level:
                paths[kind].append(box(left, top + size * (1 - level), size, size * level))
            if cell.arrived:
                paths["arrived"].append(box(left + 1, top + 1, size - 2, size - 2))
            colour = PAPER if kind in ("done", "wrong") else INK
            texts.append((left + size / 2, top + size / 2, _label(cell, grid, symbols=symbols), colour))
    for kind, colour in (("part", PART), ("done", DONE), ("wrong", WRONG)):
        svg.path(paths[kind], fill=colour)
    svg.path(paths["outline"], fill="none", stroke="#8a8a8a", stroke_width=0.6)
    svg.path(paths["arrived"], fill="none", stroke=NEW, stroke_width=2)
    _write_labels(svg, texts, size)
    if axes:
        _draw_axes(svg, grid, x, y, size)


def grid_width(grid: Grid, size: float) -> float:
    return ROW_LABEL + _offset(len(grid.columns.kept), grid.columns, size)


def grid_height(grid: Grid, size: float) -> float:
    return HEAD + _offset(len(grid.ranks.kept), grid.ranks, size)


def draw_panel(svg: Svg, story: Story, frame: Frame, x: float, y: float, size: float) -> None:
    """One round: its number and badge, its messages on a circle, and the grid after it."""
    svg.text(x, y + 12, f"Round {frame.round + 1}", font_size=13, font_weight="bold")
    svg.text(x, y + 27, story.badge(frame), fill=SOFT, font_size=10.5)
    radius = circle_radius(story.table.p, size)
    middle = y + 36 + max(radius + 12, (HEAD + grid_height(frame.grid, size)) / 2)
    draw_circle(svg, frame, story.table.p, story.table.blocks, x + radius + 12, middle, radius)
    draw_grid(svg, frame.grid, x + 2 * radius + 30, middle - (HEAD + grid_height(frame.grid, size)) / 2, size)
    if frame.sent > len(frame.messages):
        note = f"{len(frame.messages)} of {frame.sent:,} messages drawn"
        svg.text(x, middle + radius + 24, note, fill=SOFT, font_size=9)


def panel_size(story: Story, size: float) -> tuple[float, float]:
    radius = circle_radius(story.table.p, size)
    width = 2 * radius + 30 + grid_width(story.after, size)
    height = 36 + max(2 * radius + 28, HEAD + grid_height(story.after, size))
    return max(width, 6.2 * len(story.badge(story.frames[-1]))), height


def circle_radius(p: int, size: float) -> float:
    """Grows with the cells beside it."""
    return max(34.0, p * 25.5 / (2 * pi)) * size / SMALL if p <= LABELLED else 64.0


def draw_circle(svg: Svg, frame: Frame, p: int, blocks: int, x: float, y: float, radius: float) -> None:
    """The ranks on a circle, rank 0 on top, and an arrow for every message."""
    node = 7.8 if p <= LABELLED else 2.2
    places = [(x + radius * sin(2 * pi * r / p), y - radius * cos(2 * pi * r / p)) for r in range(p)]
    svg.circle(x, y, radius, fill="none", stroke=FAINT, stroke_width=0.8)
    with svg.group(fill="none", stroke_width=1.3 if len(frame.messages) <= 4 * LABELLED else 0.6):
        heads: dict[str, list[str]] = {TRANSIT: [], REDUCING: []}
        for message in frame.messages:
            colour = REDUCING if message.reduces else TRANSIT
            heads[colour].append(_draw_message(svg, message, colour, places, node, blocks))
    for colour, steps in heads.items():
        svg.path(steps, fill=colour)
    if p <= LABELLED:
        with svg.group(font_size=9, text_anchor="middle"):
            for rank, (left, top) in enumerate(places):
                svg.circle(left, top, node, fill=PAPER, stroke=INK)
                svg.text(left, top + 3.2, str(rank))
        return
    if p <= 128:
        svg.path([box(left - 1.5, top - 1.5, 3, 3) for left, top in places], fill=INK)
    for rank in sorted({0, p // 4, p // 2, 3 * p // 4}):
        left, top = x + (radius + 11) * sin(2 * pi * rank / p), y - (radius + 11) * cos(2 * pi * rank / p)
        svg.text(left, top + 3, str(rank), font_size=9, text_anchor="middle", fill=SOFT)


def _draw_message(
    svg: Svg, message: Message, colour: str, places: list[tuple[float, float]], node: float, blocks: int
) -> str:
    """An arc that bends to its right, so that the two directions of an exchange lie apart; returns its head."""
    (x1, y1), (x2, y2) = places[message.source], places[message.target]
    length = hypot(x2 - x1, y2 - y1) or 1.0
    across, along = -(y2 - y1) / length, (x2 - x1) / length
    bx, by = (x1 + x2) / 2 + across * BEND * length, (y1 + y2) / 2 + along * BEND * length
    reach = hypot(bx - x1, by - y1) or 1.0
    start = x1 + (bx - x1) * node / reach, y1 + (by - y1) * node / reach
    end = x2 + (bx - x2) * (node + 1) / reach, y2 + (by - y2) * (node + 1) / reach
    curve = f"M{number(start[0])} {number(start[1])}Q{number(bx)} {number(by)} {number(end[0])} {number(end[1])}"
    what = "added" if message.reduces else "copied"
    origin = ", from scratch or input memory" if message.borrowed else ""
    tip = f"{message.source} → {message.target}: {name_blocks(message.blocks, blocks)}, {what}{origin}"
    dashes = {"stroke_dasharray": "3.5 2"} if message.borrowed else {}
    svg.path([curve], tip, stroke=colour, **dashes)
    return arrowhead(bx, by, *end, 6)


def _fill(cell: Cell) -> tuple[str, float]:
    if cell.spoilt:
        return "wrong", 1.0
    if cell.done:
        return "done", 1.0
    return "part", min(1.0, cell.held / cell.whole)


def _label(cell: Cell, grid: Grid, *, symbols: bool) -> str:
    """As symbols, x₂ is the contribution of rank 2, Σ8 the sum of 8; otherwise it is a count."""
    if cell.spoilt:
        return "×"
    if cell.held == 0:
        return ""
    if grid.own:
        return str(cell.block)
    if symbols and cell.held == 1:
        return "x" + str(cell.lowest).translate(str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉"))
    if symbols and cell.held == cell.whole:
        return f"Σ{cell.whole}"
    return str(cell.held) if cell.whole > 1 else ""


def _write_labels(svg: Svg, texts: list[tuple[float, float, str, str]], size: float) -> None:
    font = min(11.0, 0.66 * size)
    widest = max((len(text) for *_, text, _ in texts), default=0)
    if font < 8.5 or widest * font * 0.58 > size:
        return
    with svg.group(font_size=font, text_anchor="middle"):
        for x, y, text, colour in texts:
            if text and colour == INK:
                svg.text(x, y + 0.36 * font, text)
            elif text:
                svg.text(x, y + 0.36 * font, text, fill=colour)


def _draw_axes(svg: Svg, grid: Grid, x: float, y: float, size: float) -> None:
    """Rank numbers, block numbers (as many as fit) and dots where something was left out."""
    every = max(1, round(-(-13 // size)))
    with svg.group(font_size=9, fill=SOFT):
        with svg.group(text_anchor="end"):
            for i, (rank, _) in enumerate(grid.rows):
                if i % every == 0 or (i == len(grid.rows) - 1 and i % every > every // 2):
                    svg.text(x + ROW_LABEL - 5, y + HEAD + _offset(i, grid.ranks, size) + size / 2 + 3, str(rank))
        with svg.group(text_anchor="middle"):
            for j, cell in enumerate(grid.rows[0][1]):
                if not grid.own and j % every == 0:
                    svg.text(x + ROW_LABEL + _offset(j, grid.columns, size) + size / 2, y + HEAD - 5, str(cell.block))
            if grid.ranks.left_out:
                middle = y + HEAD + _offset(grid.ranks.gap, grid.ranks, size) - 3
                note = f"… {plural(grid.ranks.left_out, 'more rank')} …"
                svg.text(x + ROW_LABEL + (grid_width(grid, size) - ROW_LABEL) / 2, middle, note)
            if grid.columns.left_out:
                left = x + ROW_LABEL + _offset(grid.columns.gap, grid.columns, size) - 7
                svg.text(left, y + HEAD + size, "…")


def _offset(i: int, crop: Crop, size: float) -> float:
    return i * size + (14 if crop.left_out and i >= crop.gap else 0)
