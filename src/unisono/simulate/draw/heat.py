"""SVG of how busy every link and port was: a cell for each, or for the busiest of several where there are too many."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...interpret.draw.svg import FAINT, INK, SOFT, Svg, box
from ..outcome import Outcome
from ..topology import Floats
from .words import describe

WIDTH = 1120.0
MOST_COLUMNS, MOST_ROWS = 128, 64
SHADES = ("#f3f6f8", "#d6e6f2", "#a9d0e8", "#6fb3d9", "#3c8fc4", "#f0b040", "#e87d2a", "#d4421c", "#9c1414")
"""From idle to busy all the time; apart in lightness, too."""


class Panel(NamedTuple):
    title: str
    share: Floats  # of the time, (rows, columns)
    row_title: str


def draw_heat(outcome: Outcome) -> str:
    """Ports first, then the links of each kind."""
    svg = Svg()
    svg.text(24, 26, f"{outcome.collective} · {outcome.algorithm} · {outcome.p:,} ranks on {outcome.topology.name}",
             font_size=14, font_weight="bold")  # fmt: skip
    svg.text(24, 44, describe(outcome), fill=SOFT)
    x, y, tallest = 24.0, 66.0, 0.0
    for panel in _panels(outcome):
        rows, columns = panel.share.shape
        cell = max(2.0, min(16.0, 520.0 / columns, 360.0 / rows))
        width, height = max(cell * columns, 190.0), cell * rows + 34
        if x + width > 24 + WIDTH and x > 24:
            x, y, tallest = 24.0, y + tallest + 16, 0.0
        _draw_panel(svg, panel, x, y, cell)
        x, tallest = x + width + 28, max(tallest, height)
    y += tallest + 10
    _draw_legend(svg, 24, y)
    return svg.document(WIDTH + 48, y + 40, "Load of links")


def _panels(outcome: Outcome) -> list[Panel]:
    loads, time = outcome.loads, outcome.time or 1.0
    panels = [
        Panel(f"ports, {way} ({outcome.p:,})", _folded(_square(busy / time)), "")
        for way, busy in (("out", loads.out_busy), ("in", loads.into_busy))
    ]
    for group in outcome.topology.groups:
        share = loads.links_busy[group.first : group.first + group.rows * group.columns] / time
        grid = share.reshape(group.rows, group.columns)
        shape = grid if group.columns > 1 else _square(share)
        panels.append(Panel(f"links, {group.name} ({share.size:,})", _folded(shape), ""))
    return panels


def _square(values: Floats) -> Floats:
    """Row by row, so many columns that it is no taller than wide; what is missing in the last row is NaN."""
    columns = int(np.ceil(np.sqrt(len(values) * 2))) if len(values) > 16 else len(values)
    rows = -(-len(values) // max(columns, 1))
    return np.concatenate([values, np.full(rows * columns - len(values), np.nan)]).reshape(rows, columns)


def _folded(grid: Floats) -> Floats:
    """The busiest of neighbouring cells, where there are more than a picture has room for."""
    for axis, most in ((0, MOST_ROWS), (1, MOST_COLUMNS)):
        length = grid.shape[axis]
        if length > most:
            starts = np.linspace(0, length, most, endpoint=False).astype(int)
            grid = np.fmax.reduceat(grid, starts, axis=axis)
    return grid


def _draw_panel(svg: Svg, panel: Panel, x: float, y: float, cell: float) -> None:
    busiest = float(np.nanmax(panel.share, initial=0.0))
    svg.text(x, y + 10, panel.title, font_weight="bold")
    svg.text(x, y + 23, f"busiest {100 * busiest:.0f} %, mean {100 * float(np.nanmean(panel.share)):.0f} %",
             font_size=10, fill=SOFT)  # fmt: skip
    shade = np.clip((panel.share * len(SHADES)), 0, len(SHADES) - 1)
    for index, fill in enumerate(SHADES):
        rows, columns = np.nonzero((np.nan_to_num(shade, nan=-1.0) >= 0) & (np.floor(shade) == index))
        boxes = [box(x + c * cell, y + 30 + r * cell, cell, cell) for r, c in zip(rows, columns, strict=True)]
        svg.path(boxes, fill=fill, stroke=FAINT, stroke_width=0.4 if cell > 4 else 0)


def _draw_legend(svg: Svg, x: float, y: float) -> None:
    svg.text(x, y + 10, "busy", fill=INK)
    x += 34
    for index, fill in enumerate(SHADES):
        svg.rect(x, y, 40, 12, fill=fill, stroke=FAINT, stroke_width=0.5)
        svg.text(x, y + 24, f"{100 * index / len(SHADES):.0f} %", font_size=9, fill=SOFT)
        x += 40
    svg.text(x, y + 24, "100 % of the time", font_size=9, fill=SOFT)
