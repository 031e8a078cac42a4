"""SVG of space and time as it was simulated: a lane for what each rank sends, one for what it receives."""

from __future__ import annotations

from math import floor, log10

import numpy as np

from ...interpret.draw.svg import FAINT, INK, SOFT, TRANSIT, WRONG, Svg, arrowhead, box, line
from ...interpret.draw.timeline import format_seconds
from ..outcome import Flights, Outcome
from ..topology import Floats
from .words import describe

LABEL, WIDTH, TOP = 62.0, 1120.0, 66.0
SHORTEST = 1e-12
"""Seconds that a picture has room for, even of what takes no time."""
MOST_RANKS = 48
MOST_MESSAGES = 6000
MOST_ARROWS = 1200
LEGEND = (
    ("url(#startup)", "start-up (α)"),
    (TRANSIT, "bytes move, alone"),
    (WRONG, "bytes move, slowed by others"),
    ("url(#idle)", "waits"),
)


def draw_flights(outcome: Outcome) -> str:
    """The first messages of the first ranks, over real seconds; needs a simulation that recorded them."""
    assert outcome.flights is not None, "simulate(…, record=True)"
    shown = _shown(outcome.flights, min(outcome.p, MOST_RANKS))
    ranks = min(outcome.p, MOST_RANKS)
    lane = 9.0 if ranks <= 16 else 6.0 if ranks <= 32 else 4.0
    pitch = 2 * lane + (7 if lane == 9 else 3)
    everything = len(shown.round) == outcome.messages
    last = float(shown.ended.max(initial=0.0))
    seconds = max(outcome.time if everything else last, SHORTEST)
    svg = Svg()
    svg.text(24, 26, f"{outcome.collective} · {outcome.algorithm} · {outcome.p:,} ranks on {outcome.topology.name}",
             font_size=14, font_weight="bold")  # fmt: skip
    svg.text(24, 44, describe(outcome), fill=SOFT)
    left, scale = 24 + LABEL, (WIDTH - LABEL) / seconds
    _draw_lanes(svg, shown, ranks, left, scale, lane, pitch, seconds)
    bottom = TOP + pitch * ranks
    _draw_arrows(svg, shown, left, scale, lane, pitch)
    _draw_axis(svg, left, bottom, scale, seconds)
    if notes := _notes(outcome, shown, ranks):
        svg.text(24 + WIDTH, bottom + 32, notes, text_anchor="end", font_size=10, fill=SOFT)
    _draw_legend(svg, 24, bottom + 46)
    return svg.document(WIDTH + 48, bottom + 72, "A simulation in space and time")


def _shown(flights: Flights, ranks: int) -> Flights:
    there = np.flatnonzero((flights.source < ranks) & (flights.target < ranks))
    there = there[np.argsort(flights.ready[there], kind="stable")][:MOST_MESSAGES]
    return Flights._make(column[there] for column in flights)


def _draw_lanes(
    svg: Svg, f: Flights, ranks: int, left: float, scale: float, lane: float, pitch: float, seconds: float
) -> None:  # fmt: skip
    idle = [box(left, TOP + rank * pitch + k * lane, seconds * scale, lane) for rank in range(ranks) for k in (0, 1)]
    svg.path(idle, fill="url(#idle)", stroke=FAINT, stroke_width=0.5)
    slowed = (f.ended - f.began) > 1.02 * f.alone
    for chosen, fill in ((~slowed, TRANSIT), (slowed, WRONG)):
        bars = _bars(f, chosen, f.began, f.ended, left, scale, lane, pitch)
        svg.path(bars, fill=fill)
    svg.path(_bars(f, f.ready >= 0, f.ready, f.began, left, scale, lane, pitch), fill="url(#startup)")
    for rank in range(ranks):
        y = TOP + rank * pitch
        if lane == 9:
            svg.text(left - 34, y + lane + 4, str(rank), text_anchor="end", font_size=11)
            svg.text(left - 4, y + lane - 1, "send", text_anchor="end", font_size=7, fill=SOFT)
            svg.text(left - 4, y + 2 * lane - 1, "recv", text_anchor="end", font_size=7, fill=SOFT)
        else:
            svg.text(left - 5, y + lane + 3, str(rank), text_anchor="end", font_size=9)


def _bars(
    f: Flights, chosen: np.ndarray, begin: Floats, end: Floats, left: float, scale: float, lane: float, pitch: float
) -> list[str]:
    bars = []
    for i in np.flatnonzero(chosen & (end > begin)):
        x, width = left + begin[i] * scale, max(0.6, (end[i] - begin[i]) * scale)
        bars.append(box(x, TOP + f.source[i] * pitch, width, lane))
        bars.append(box(x, TOP + f.target[i] * pitch + lane, width, lane))
    return bars


def _draw_arrows(svg: Svg, f: Flights, left: float, scale: float, lane: float, pitch: float) -> None:
    count = min(len(f.round), MOST_ARROWS)
    crowded = count > 250
    shafts, heads = [], []
    for i in range(count):
        x1, y1 = left + f.began[i] * scale, TOP + f.source[i] * pitch + lane / 2
        x2, y2 = left + f.ended[i] * scale, TOP + f.target[i] * pitch + lane * 1.5
        shafts.append(line(x1, y1, x2, y2))
        heads.append(arrowhead(x1, y1, x2, y2, 4 if crowded else 7))
    with svg.group(stroke_width=0.4 if crowded else 0.9, opacity=0.5 if crowded else 0.8):
        svg.path(shafts, stroke=INK, fill="none")
        svg.path(heads, fill=INK)


def _draw_axis(svg: Svg, left: float, bottom: float, scale: float, seconds: float) -> None:
    power = 10.0 ** floor(log10(seconds / 8))
    step = next(x * power for x in (1, 2, 5, 10) if x * power >= seconds / 8 * 0.9999)
    ticks = np.arange(0, seconds * 1.0001, step) if seconds > SHORTEST else np.zeros(1)
    svg.path([line(left, bottom, left + seconds * scale, bottom)], stroke=INK)
    svg.path([line(left + tick * scale, bottom, left + tick * scale, bottom + 4) for tick in ticks], stroke=INK)
    with svg.group(font_size=10, text_anchor="middle"):
        for tick in ticks:
            svg.text(left + tick * scale, bottom + 15, format_seconds(float(tick)))


def _notes(outcome: Outcome, shown: Flights, ranks: int) -> str:
    notes = []
    if ranks < outcome.p:
        notes.append(f"ranks 0 to {ranks - 1} of {outcome.p:,}, and what they send each other")
    if len(shown.round) >= MOST_MESSAGES:
        notes.append(f"the first {MOST_MESSAGES:,} messages")
    if len(shown.round) > MOST_ARROWS:
        notes.append(f"arrows of the first {MOST_ARROWS:,}")
    return "; ".join(notes)


def _draw_legend(svg: Svg, x: float, y: float) -> None:
    for fill, text in LEGEND:
        svg.rect(x, y, 22, 10, fill=fill, stroke=FAINT, stroke_width=0.5)
        svg.text(x + 28, y + 9, text)
        x += 52 + 6.2 * len(text)
    svg.path([line(x, y + 1, x + 22, y + 9)], stroke=INK)
    svg.path([arrowhead(x, y + 1, x + 22, y + 9, 7)], fill=INK)
    svg.text(x + 28, y + 9, "a message")
