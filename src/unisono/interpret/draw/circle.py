"""SVG of a round's messages: the ranks on a circle, an arrow for each message."""

from __future__ import annotations

from math import cos, hypot, pi, sin

from .story import Frame, Message, name_blocks
from .svg import FAINT, INK, PAPER, REDUCING, SOFT, TRANSIT, Svg, arrowhead, box, number

SMALL = 13.5
"""Pixels of a cell that has just room for two digits."""
BEND = 0.13
LABELLED = 16
"""So many ranks are drawn as numbered circles, more of them as dots."""


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
