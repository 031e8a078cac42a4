"""Pictures of what is under way."""

from __future__ import annotations

import html
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

from ..errors import ConfigError
from ..interpret.draw.svg import DONE, FAINT, INK, NEW, PAPER, PART, SOFT, Svg, arrowhead, line
from .dependencies import MODES, STATES, Dependency, Entry, dependencies, levels

FILLS = (PAPER, PART, NEW, FAINT)
WIDTH, HEIGHT, GAP, STEP, MARGIN = 150.0, 34.0, 16.0, 74.0, 20.0
LONGEST_NAME = 22


class Graph(NamedTuple):
    """Operations and what each waits for. Text of it is DOT."""

    entries: list[Entry]
    edges: list[Dependency]

    @classmethod
    def of(cls, entries: list[Entry]) -> Graph:
        return cls(entries, dependencies(entries))

    def __str__(self) -> str:
        return self.dot()

    def dot(self) -> str:
        """In the language of Graphviz."""
        nodes = [
            f"  {entry.serial} [label={_quoted(entry.name)}, tooltip={_quoted(_tip(entry))}, style=filled, "
            f'fillcolor="{FILLS[entry.state]}"]'
            for entry in self.entries
        ]
        arrows = [f"  {edge.before} -> {edge.after} [label={_quoted(edge.variable)}]" for edge in self.edges]
        return "\n".join(["digraph engine {", '  node [shape=box, fontname="Helvetica"]', *nodes, *arrows, "}\n"])

    def svg(self) -> str:
        """Operations that could run at once stand side by side; arrows point at those that wait."""
        level, rows = levels(self.entries, self.edges), defaultdict[int, list[Entry]](list)
        for entry in self.entries:
            rows[level[entry.serial]].append(entry)
        broadest = max(map(len, rows.values()), default=1)
        width = 2 * MARGIN + max(broadest * (WIDTH + GAP) - GAP, 4 * WIDTH)
        place = {
            entry.serial: (width / 2 + (i - (len(row) - 1) / 2) * (WIDTH + GAP), 2.5 * MARGIN + number * STEP)
            for number, row in rows.items()
            for i, entry in enumerate(row)
        }
        svg = Svg()
        self._draw_arrows(svg, place)
        for entry in self.entries:
            _draw(svg, entry, *place[entry.serial])
        for i, (state, fill) in enumerate(zip(STATES, FILLS, strict=True)):
            svg.rect(MARGIN + i * 90, MARGIN / 2, 12, 12, fill=fill, stroke=SOFT)
            svg.text(MARGIN + i * 90 + 18, MARGIN / 2 + 10, state)
        height = 3 * MARGIN + HEIGHT + max(rows, default=0) * STEP
        return svg.document(width, height, f"{len(self.entries)} operations of an engine")

    def _draw_arrows(self, svg: Svg, place: dict[int, tuple[float, float]]) -> None:
        for edge in self.edges:
            (x1, y1), (x2, y2) = place[edge.before], place[edge.after]
            ends = x1, y1 + HEIGHT, x2, y2
            svg.path([line(*ends)], _printable(edge.variable), stroke=DONE, stroke_width=1.2, fill="none")
            svg.path([arrowhead(*ends, 7)], fill=DONE)

    def save(self, path: str | Path) -> None:
        """As .dot or .svg, which the name of the file says."""
        makers = {".dot": self.dot, ".svg": self.svg}
        suffix = Path(path).suffix
        if suffix not in makers:
            raise ConfigError(f"{path}: a graph is saved as .dot or .svg")
        Path(path).write_text(makers[suffix](), encoding="utf-8")


def _draw(svg: Svg, entry: Entry, x: float, y: float) -> None:
    short = entry.name if len(entry.name) <= LONGEST_NAME else f"…{entry.name[1 - LONGEST_NAME :]}"
    with svg.group():
        svg.parts.append(f"<title>{html.escape(_printable(_tip(entry)))}</title>")
        svg.rect(x - WIDTH / 2, y, WIDTH, HEIGHT, rx=4, fill=FILLS[entry.state], stroke=INK)
        svg.text(x, y + 15, _printable(short), text_anchor="middle")
        uses = ", ".join(f"{MODES[touch.mode][0]} {touch.name}" for touch in entry.touches)
        svg.text(x, y + 28, _printable(uses[: LONGEST_NAME + 6]), text_anchor="middle", fill=SOFT, font_size=9)


def _tip(entry: Entry) -> str:
    uses = "; ".join(f"{MODES[touch.mode]} {touch.name}" for touch in entry.touches)
    return f"{entry.name} #{entry.serial}, pushed at {entry.where}, {STATES[entry.state]}; {uses}"


def _printable(text: str) -> str:
    """XML has no place for most control characters."""
    return "".join(character if character.isprintable() else " " for character in text)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ") + '"'
