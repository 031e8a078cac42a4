"""One SVG document about one schedule: before and after, every round, and the whole in space and time."""

from __future__ import annotations

from ...schedule.schedule import Table
from ..machine import DEFAULT, Machine
from .circle import SMALL
from .grid import HEAD, ROW_LABEL, draw_grid, draw_panel, grid_height, grid_width, panel_size
from .scene import tell
from .spacetime import Spacetime, draw_lane_legend
from .story import Cell, Crop, Grid, Limits, Story, plural
from .svg import FAINT, INK, REDUCING, SOFT, TRANSIT, Svg, arrowhead, line
from .timeline import format_seconds

MARGIN, WIDTH = 28, 1400
FEW = Limits(ranks=16, blocks=20, rounds=30, messages=400)
MANY = Limits(ranks=32, blocks=32, rounds=14, messages=400)
"""What is drawn of schedules for up to 16 ranks, with numbers in the cells, and of larger ones."""


def draw_svg(table: Table, nbytes: int, machine: Machine = DEFAULT) -> str:
    """Draw a schedule for ``nbytes`` bytes, as it runs on equal links."""
    story = tell(table, FEW if table.p <= FEW.ranks else MANY)
    spacetime = Spacetime(table, nbytes, machine)
    svg = Svg()
    (alpha, beta), gamma = machine.link, machine.gamma
    costs = f"n = {nbytes:,} bytes · α = {format_seconds(alpha)} · β = {beta:.3g} s/byte · γ = {gamma:.3g} s/byte"
    y = _draw_header(svg, story, costs)
    y = _draw_before_and_after(svg, story, y)
    y = _draw_rounds(svg, story, y)
    if table.rounds:
        spacetime.draw(svg, "In space and time", MARGIN, y, WIDTH, spacetime.seconds)
        draw_lane_legend(svg, MARGIN, y + spacetime.height)
        y += spacetime.height + 16
    return svg.document(WIDTH + 2 * MARGIN, y + MARGIN, story.title)


def _draw_header(svg: Svg, story: Story, costs: str) -> float:
    name = f"{story.table.collective.name} · {story.table.name or 'schedule'}"
    svg.text(MARGIN, 44, name, font_size=24, font_weight="bold")
    svg.text(MARGIN, 66, " · ".join(story.facts()), font_size=13)
    svg.text(MARGIN + WIDTH, 66, costs, font_size=11, fill=SOFT, text_anchor="end")
    svg.path([line(MARGIN, 78, MARGIN + WIDTH, 78)], stroke=FAINT)
    return 96


def _draw_before_and_after(svg: Svg, story: Story, y: float) -> float:
    columns = max(len(grid.columns.kept) for grid in (story.before, story.after))
    size = max(10.0, min(28.0, 380 / columns, 420 / len(story.after.rows)))
    x: float = MARGIN
    for title, grid in (("Before", story.before), ("After", story.after)):
        svg.text(x, y + 13, title, font_size=13, font_weight="bold")
        axes = "rows: ranks · columns: " + ("own blocks" if grid.own else "blocks")
        svg.text(x + 56, y + 13, axes, font_size=9.5, fill=SOFT)
        draw_grid(svg, grid, x, y + 22, size, result_only=title == "After", symbols=True)
        x += max(grid_width(grid, size), 210) + 44
    _draw_arrow_legend(svg, story, x, _draw_cell_legend(svg, story, x, y))
    return y + 22 + max(grid_height(story.after, size), 150) + 26


def _draw_cell_legend(svg: Svg, story: Story, x: float, y: float) -> float:
    """How to read a cell, by example."""
    goal = story.goal
    empty = Cell(0, 0, goal, 0, promised=True, done=False, spoilt=False, arrived=False)
    some = max(1, goal * 3 // 8)
    examples = [(empty, "holds nothing")]
    if goal > 1:
        examples.append((empty._replace(held=some), f"holds {some} of {goal} contributions: the fill is the share"))
    else:
        examples.append((empty._replace(held=1), "holds it, but only to pass it on"))
    examples.append((empty._replace(held=goal, done=True), "has the result that it is to have"))
    examples.append((empty._replace(held=some if goal > 1 else 1, arrived=True), "arrived in this round"))
    if any(cell.spoilt for _, row in story.after.rows for cell in row):
        examples.append((empty._replace(spoilt=True), "wrong: verify says why"))
    for cell, text in examples:
        one = Grid([(0, [cell])], Crop([0], 1, 0), Crop([0], 1, 0), own=False)
        draw_grid(svg, one, x - ROW_LABEL + 4, y - HEAD, 15, axes=False)
        svg.text(x + 34, y + 12, text)
        y += 21
    if goal > 1:
        svg.text(x + 12, y + 12, "x₂", text_anchor="middle")
        svg.text(x + 34, y + 12, f"the contribution of rank 2 (Σ{goal}: the sum of {goal})")
        y += 21
    return y


def _draw_arrow_legend(svg: Svg, story: Story, x: float, y: float) -> None:
    """The kinds of arrows that occur."""
    messages = [message for frame in story.frames for message in frame.messages]
    arrows = []
    if any(not message.reduces for message in messages):
        arrows.append((TRANSIT, "none", "message, copied in"))
    if any(message.reduces for message in messages):
        arrows.append((REDUCING, "none", "message, added to what is there"))
    if any(message.borrowed for message in messages):
        arrows.append((SOFT, "3.5 2", "message from scratch memory or the input"))
    for colour, dashes, text in arrows:
        svg.path([line(x, y + 8, x + 24, y + 8)], stroke=colour, stroke_width=1.4, stroke_dasharray=dashes)
        svg.path([arrowhead(x, y + 8, x + 26, y + 8, 7)], fill=colour)
        svg.text(x + 34, y + 12, text)
        y += 21


def _draw_rounds(svg: Svg, story: Story, y: float) -> float:
    if not story.frames:
        svg.text(MARGIN, y + 13, "No rounds: nothing has to be sent.", font_size=13)
        return y + 30
    panels: list[int | None] = list(range(len(story.frames)))
    if story.rounds.left_out:
        panels.insert(story.rounds.gap, None)
    size, rows = _panel_layout(story, len(panels))
    columns = -(-len(panels) // rows)
    width, height = panel_size(story, size)
    pitch = width + min(60, (WIDTH - columns * width) / max(1, columns - 1))
    for place, panel in enumerate(panels):
        x, top = MARGIN + place % columns * pitch, y + place // columns * (height + 22)
        if panel is None:
            note = f"… {plural(story.rounds.left_out, 'more round')} …"
            svg.text(x + width / 2, top + height / 2, note, font_size=13, text_anchor="middle", fill=INK)
        else:
            draw_panel(svg, story, story.frames[panel], x, top, size)
    return y + rows * (height + 22) + 10


def _panel_layout(story: Story, panels: int) -> tuple[float, int]:
    """The largest cells with which the panels take two rows, or else small ones; and the number of rows."""
    for size in (22.0, 17.0, SMALL) if story.table.p <= FEW.ranks else (8.0,):
        fitting = max(1, int((WIDTH + 14) // (panel_size(story, size)[0] + 14)))
        rows = -(-panels // fitting)
        if rows <= 2:
            break
    return size, rows
