"""SVG of space and time: a lane for what each rank sends and one for what it receives, over real seconds."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor, log10

import numpy as np

from ...schedule.ir import Ints
from ...schedule.schedule import Table
from ..machine import DEFAULT, Machine
from .story import Crop, plural
from .svg import FAINT, INK, REDUCING, SOFT, TRANSIT, Svg, arrowhead, box, line
from .timeline import Floats, describe, flights, format_seconds, schedule_time

LABEL = 62
MOST_RANKS = 64
MOST_BARS = 8192
"""Rounds times ranks."""
MOST_ARROWS = 1500
LEGEND = (
    ("url(#startup)", "start-up (α)"),
    (TRANSIT, "in transit (β)"),
    (REDUCING, "reducing (γ)"),
    ("url(#idle)", "idle"),
)


class Spacetime:
    """The diagram of one schedule, in pixels."""

    def __init__(self, table: Table, nbytes: int, machine: Machine) -> None:
        self.table = table
        self.timeline = schedule_time(table, nbytes, machine)
        self.ranks = Crop.of(table.p, MOST_RANKS)
        self.rounds = min(table.rounds, MOST_BARS // len(self.ranks.kept))
        self.seconds = float(self.timeline.start[self.rounds])
        self.flights = flights(table, nbytes, machine, self.rounds)
        self.lane = 9 if len(self.ranks.kept) <= 16 else 6 if len(self.ranks.kept) <= 32 else 4
        self.pitch = 2 * self.lane + (7 if self.lane == 9 else 3)

    @property
    def height(self) -> float:
        return 44 + self.pitch * len(self.ranks.kept) + 16 * (self.ranks.left_out > 0) + 40

    def draw(self, svg: Svg, title: str, x: float, y: float, width: float, seconds: float) -> None:
        """Paint it on so many pixels for so many seconds."""
        svg.text(x, y + 13, title, font_size=13, font_weight="bold")
        svg.text(x + width, y + 13, describe(self.timeline), text_anchor="end", font_size=11.5)
        if self.seconds == 0:
            return
        left, top = x + LABEL, y + 44
        scale = (width - LABEL) / seconds
        self._draw_lanes(svg, left, top, scale)
        drawn = self._draw_arrows(svg, left, top, scale)
        bottom = top + self.pitch * len(self.ranks.kept) + 16 * (self.ranks.left_out > 0)
        self._draw_axis(svg, left, bottom, scale, seconds)
        self._draw_rounds(svg, left, y + 38, bottom, scale)
        if notes := self._notes(drawn):
            svg.text(x + width, bottom + 32, "; ".join(notes), text_anchor="end", font_size=10, fill=SOFT)

    def _lane_top(self, top: float, row: int) -> float:
        return top + row * self.pitch + 16 * (self.ranks.left_out > 0 and row >= self.ranks.gap)

    def _draw_lanes(self, svg: Svg, left: float, top: float, scale: float) -> None:
        """What is not covered by a bar is idle."""
        t, rounds = self.timeline, slice(self.rounds)
        begin, over = t.start[:-1, None], t.startup + t.transit
        idle, startup, transit, reducing = [], [], [], []
        for row, rank in enumerate(self.ranks.kept):
            y = self._lane_top(top, row)
            lanes = ((y, t.starting_out, t.out), (y + self.lane, t.starting_in, t.into))
            for lane, starting, moving in lanes:
                idle.append(box(left, lane, self.seconds * scale, self.lane))
                startup += _bars(begin[rounds, 0], starting[rounds, rank], left, lane, self.lane, scale, least=1.0)
                transit += _bars((begin + t.startup)[rounds, rank], moving[rounds, rank], left, lane, self.lane, scale)
            at = (begin + over)[rounds, rank]
            reducing += _bars(at, t.reduced[rounds, rank], left, y + self.lane, self.lane, scale)
            self._label(svg, rank, left, y)
        svg.path(idle, fill="url(#idle)", stroke=FAINT, stroke_width=0.5)
        svg.path(transit, fill=TRANSIT)
        svg.path(reducing, fill=REDUCING)
        svg.path(startup, fill="url(#startup)")
        if self.ranks.left_out:
            y = self._lane_top(top, self.ranks.gap) - 5
            svg.text(left, y, f"… {plural(self.ranks.left_out, 'more rank')} …", font_size=10, fill=SOFT)

    def _label(self, svg: Svg, rank: int, left: float, y: float) -> None:
        if self.lane == 9:
            svg.text(left - 34, y + self.lane + 4, str(rank), text_anchor="end", font_size=11)
            svg.text(left - 4, y + 7.5, "send", text_anchor="end", font_size=8.5, fill=SOFT)
            svg.text(left - 4, y + 16.5, "recv", text_anchor="end", font_size=8.5, fill=SOFT)
        else:
            svg.text(left - 5, y + self.lane + 3, str(rank), text_anchor="end", font_size=9)

    def _draw_arrows(self, svg: Svg, left: float, top: float, scale: float) -> int:
        """From where a message leaves the sender's lane to where it has arrived; returns of how many rounds."""
        f, t = self.flights, self.timeline
        per_round = np.cumsum(np.bincount(f.round, minlength=self.rounds))
        drawn = int(np.searchsorted(per_round, MOST_ARROWS, side="right"))
        rows = {rank: row for row, rank in enumerate(self.ranks.kept)}
        ready = t.start[f.round] + t.startup[f.round, f.source]
        begin = np.where(f.arrives > 0, ready + f.leaves, t.start[f.round])
        messages = zip(f.round, f.source, f.target, begin, ready + f.arrives, strict=True)
        crowded = len(f.round) > 250
        shafts, heads = [], []
        for round_, source, target, leaves, arrives in messages:
            if round_ < drawn and source in rows and target in rows:
                x1, y1 = left + leaves * scale, self._lane_top(top, rows[source]) + self.lane / 2
                x2, y2 = left + arrives * scale, self._lane_top(top, rows[target]) + self.lane * 1.5
                shafts.append(line(x1, y1, x2, y2))
                heads.append(arrowhead(x1, y1, x2, y2, 5 if crowded else 7))
        with svg.group(stroke_width=0.5 if crowded else 0.9, opacity=0.6 if crowded else 0.85):
            svg.path(shafts, stroke=INK, fill="none")
            svg.path(heads, fill=INK)
        return drawn

    def _draw_axis(self, svg: Svg, left: float, bottom: float, scale: float, seconds: float) -> None:
        step = _nice_step(seconds / 8)
        ticks = np.arange(0, seconds * 1.0001, step)
        svg.path([line(left, bottom, left + seconds * scale, bottom)], stroke=INK)
        svg.path([line(left + tick * scale, bottom, left + tick * scale, bottom + 4) for tick in ticks], stroke=INK)
        with svg.group(font_size=10, text_anchor="middle"):
            for tick in ticks:
                svg.text(left + tick * scale, bottom + 15, format_seconds(tick))

    def _draw_rounds(self, svg: Svg, left: float, y: float, bottom: float, scale: float) -> None:
        """A line at the end of each round, and its number where it fits."""
        ends = self.timeline.start[: self.rounds + 1]
        if np.diff(ends).mean() * scale > 4:
            lines = [line(left + end * scale, y + 4, left + end * scale, bottom) for end in ends[1:]]
            svg.path(lines, stroke=INK, stroke_width=0.5, stroke_dasharray="2 2")
        free = left
        svg.text(left - 4, y, "round", font_size=10, text_anchor="end", fill=SOFT)
        with svg.group(font_size=10, text_anchor="middle", fill=SOFT):
            for round_ in range(self.rounds):
                text = str(round_ + 1)
                middle, half = left + (ends[round_] + ends[round_ + 1]) / 2 * scale, 3.2 * len(text)
                if middle - half >= free:
                    svg.text(middle, y, text)
                    free = middle + half + 3

    def _notes(self, rounds_with_arrows: int) -> list[str]:
        notes = []
        if self.rounds < self.table.rounds:
            notes.append(f"the first {self.rounds} of {self.table.rounds:,} rounds")
        if rounds_with_arrows < self.rounds:
            notes.append(f"arrows of the first {plural(rounds_with_arrows, 'round')}, too many for more")
        return notes


def draw_spacetime(tables: Sequence[Table], nbytes: int, machine: Machine = DEFAULT) -> str:
    """Schedules one below the other on the same axis of time, as one SVG document."""
    diagrams = [Spacetime(table, nbytes, machine) for table in tables]
    seconds = max((diagram.seconds for diagram in diagrams), default=0.0)
    svg, y, width = Svg(), 20.0, 1120.0
    for diagram in diagrams:
        name = f"{diagram.table.collective.name} · {diagram.table.name} · {plural(diagram.table.p, 'rank')}"
        diagram.draw(svg, name, 24, y, width, seconds)
        y += diagram.height + 18
    draw_lane_legend(svg, 24, y)
    return svg.document(width + 48, y + 28, "Schedules in space and time")


def draw_lane_legend(svg: Svg, x: float, y: float) -> None:
    for i, (fill, text) in enumerate(LEGEND):
        svg.rect(x + 116 * i, y, 22, 10, fill=fill, stroke=FAINT, stroke_width=0.5)
        svg.text(x + 116 * i + 28, y + 9, text)
    svg.path([line(x + 464, y + 1, x + 486, y + 9)], stroke=INK)
    svg.path([arrowhead(x + 464, y + 1, x + 486, y + 9, 7)], fill=INK)
    svg.text(x + 492, y + 9, "a message, from the sender's lane to the receiver's")


def _bars(
    begin: Floats, length: Floats, left: float, y: float, height: float, scale: float, least: float = 0.0
) -> list[str]:
    """Boxes of these seconds, at least so many pixels long; none where the length is 0."""
    there: Ints = np.flatnonzero(length > 0)
    return [box(left + begin[i] * scale, y, max(least, length[i] * scale), height) for i in there]


def _nice_step(least: float) -> float:
    """1, 2 or 5 times a power of ten."""
    power = 10.0 ** floor(log10(least))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= least * 0.9999)
