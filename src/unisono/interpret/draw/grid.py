"""SVG of who holds what: ranks × blocks, before, after and in every round."""

from __future__ import annotations

from math import ceil

from .circle import circle_radius, draw_circle
from .story import Cell, Crop, Frame, Grid, Story, plural
from .svg import DONE, INK, NEW, PAPER, PART, SOFT, WRONG, Svg, box, line

ROW_LABEL = 26
HEAD = 16


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
    paths: dict[str, list[str]] = {name: [] for name in ("part", "done", "wrong", "arrived")}
    texts: list[tuple[float, float, str, str]] = []
    for i, (_, row) in enumerate(grid.rows):
        for j, cell in enumerate(row):
            left, top = x + ROW_LABEL + _offset(j, grid.columns, size), y + HEAD + _offset(i, grid.ranks, size)
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
    svg.path(_mesh(grid, x + ROW_LABEL, y + HEAD, size), stroke="#8a8a8a", stroke_width=0.6)
    svg.path(paths["arrived"], fill="none", stroke=NEW, stroke_width=2)
    _write_labels(svg, texts, size)
    if axes:
        _draw_axes(svg, grid, x, y, size)


def _mesh(grid: Grid, x: float, y: float, size: float) -> list[str]:
    """The lines between cells, and around them on both sides of what was left out."""
    lines = []
    for left, right in _runs(grid.columns, size):
        for top, bottom in _runs(grid.ranks, size):
            across, down = round((right - left) / size), round((bottom - top) / size)
            lines += [line(x + left + i * size, y + top, x + left + i * size, y + bottom) for i in range(across + 1)]
            lines += [line(x + left, y + top + i * size, x + right, y + top + i * size) for i in range(down + 1)]
    return lines


def _runs(crop: Crop, size: float) -> list[tuple[float, float]]:
    """Where the kept ones start and end, in pixels."""
    before, end = (0, crop.gap * size), _offset(len(crop.kept), crop, size)
    return [before, (_offset(crop.gap, crop, size), end)] if crop.left_out else [before]


def grid_width(grid: Grid, size: float) -> float:
    note = 100 if grid.ranks.left_out else 0
    return ROW_LABEL + max(note, _offset(len(grid.columns.kept), grid.columns, size))


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
    digits = len(str(max((cell.block for cell in grid.rows[0][1]), default=0)))
    tall, wide = ceil(11 / size), ceil((5.2 * digits + 2) / size)
    with svg.group(font_size=9, fill=SOFT):
        with svg.group(text_anchor="end"):
            for i, (rank, _) in enumerate(grid.rows):
                if i % tall == 0:
                    svg.text(x + ROW_LABEL - 5, y + HEAD + _offset(i, grid.ranks, size) + size / 2 + 3, str(rank))
        with svg.group(text_anchor="middle"):
            for j, cell in enumerate(grid.rows[0][1]):
                if not grid.own and j % wide == 0:
                    svg.text(x + ROW_LABEL + _offset(j, grid.columns, size) + size / 2, y + HEAD - 5, str(cell.block))
            if grid.ranks.left_out:
                middle = y + HEAD + _offset(grid.ranks.gap, grid.ranks, size) - 3
                note = f"… {plural(grid.ranks.left_out, 'more rank')} …"
                svg.text(x + ROW_LABEL, middle, note, text_anchor="start")
            if grid.columns.left_out:
                left = x + ROW_LABEL + _offset(grid.columns.gap, grid.columns, size) - 7
                svg.text(left, y + HEAD + size, "…")


def _offset(i: int, crop: Crop, size: float) -> float:
    return i * size + (14 if crop.left_out and i >= crop.gap else 0)
