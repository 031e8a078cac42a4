"""A tiny writer of SVG."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import hypot
from xml.sax.saxutils import escape, quoteattr

FONT = "Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif"

INK, SOFT, FAINT, PAPER = "#1a1a1a", "#5c5c5c", "#c9c9c9", "#ffffff"
PART, DONE, NEW, WRONG = "#8cc2e6", "#0060a0", "#f0a000", "#d55e00"
STARTUP, TRANSIT, REDUCING, IDLE = "#d7301f", "#009e73", "#7b4fa3", "#ededed"
"""Apart in hue and in lightness, after Okabe and Ito; start-up and idle time are hatched as well."""

DEFINITIONS = f"""<defs>
<pattern id="startup" width="4" height="4" patternUnits="userSpaceOnUse"><rect width="4" height="4" fill="#f6b8ae"/>\
<path d="M-1 1l2-2M0 4l4-4M3 5l2-2" stroke="{STARTUP}" stroke-width="1.4"/></pattern>
<pattern id="idle" width="6" height="6" patternUnits="userSpaceOnUse"><rect width="6" height="6" fill="#f4f4f4"/>\
<path d="M-1 5l2 2M0 0l6 6M5 -1l2 2" stroke="#d4d4d4" stroke-width=".7"/></pattern>
</defs>"""


class Svg:
    """The elements of a picture, in the order in which they are painted."""

    def __init__(self) -> None:
        self.parts: list[str] = []

    def document(self, width: float, height: float, title: str) -> str:
        view = f"0 0 {number(width)} {number(height)}"
        style = _written(width=width, height=height, viewBox=view, font_family=FONT, font_size=11, fill=INK)
        return "\n".join([
            f'<svg xmlns="http://www.w3.org/2000/svg"{style}>',
            f"<title>{clean(title)}</title>",
            DEFINITIONS,
            f'<rect width="100%" height="100%" fill="{PAPER}"/>',
            *self.parts,
            "</svg>\n",
        ])  # fmt: skip

    def text(self, x: float, y: float, text: str, **attributes: float | str) -> None:
        self.parts.append(f"<text{_written(x=x, y=y, **attributes)}>{clean(text)}</text>")

    def rect(self, x: float, y: float, width: float, height: float, **attributes: float | str) -> None:
        self.parts.append(f"<rect{_written(x=x, y=y, width=width, height=height, **attributes)}/>")

    def circle(self, x: float, y: float, radius: float, **attributes: float | str) -> None:
        self.parts.append(f"<circle{_written(cx=x, cy=y, r=radius, **attributes)}/>")

    def path(self, steps: list[str], tip: str = "", **attributes: float | str) -> None:
        """Draws nothing where there are no steps; ``tip`` shows when the mouse is over it."""
        if steps:
            end = f"><title>{clean(tip)}</title></path>" if tip else "/>"
            self.parts.append(f"<path{_written(d=''.join(steps), **attributes)}{end}")

    @contextmanager
    def group(self, **attributes: float | str) -> Iterator[None]:
        self.parts.append(f"<g{_written(**attributes)}>")
        yield
        self.parts.append("</g>")


def box(x: float, y: float, width: float, height: float) -> str:
    """A rectangle as a part of a path."""
    return f"M{number(x)} {number(y)}h{number(width)}v{number(height)}h{number(-width)}z"


def line(x1: float, y1: float, x2: float, y2: float) -> str:
    return f"M{number(x1)} {number(y1)}L{number(x2)} {number(y2)}"


def arrowhead(x1: float, y1: float, x2: float, y2: float, size: float) -> str:
    """The head of an arrow from (x1, y1) to (x2, y2). Not a marker, since viewers turn those differently."""
    length = hypot(x2 - x1, y2 - y1) or 1.0
    dx, dy = size * (x2 - x1) / length, size * (y2 - y1) / length
    left, right = (x2 - dx - 0.4 * dy, y2 - dy + 0.4 * dx), (x2 - dx + 0.4 * dy, y2 - dy - 0.4 * dx)
    return f"M{number(x2)} {number(y2)}" + "".join(f"L{number(x)} {number(y)}" for x, y in (left, right)) + "z"


def number(x: float) -> str:
    return f"{x:.1f}".rstrip("0").rstrip(".")


def clean(text: str) -> str:
    """Text that may stand in XML: escaped, without control characters."""
    return escape("".join(c if c.isprintable() else " " for c in text))


def _written(**attributes: float | str) -> str:
    return "".join(
        f" {name.rstrip('_').replace('_', '-')}={quoteattr(value if isinstance(value, str) else number(value))}"
        for name, value in attributes.items()
    )
