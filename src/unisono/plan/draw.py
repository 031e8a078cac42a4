"""SVG of a plan: batches per second over the number of hosts, a line for each way to add up."""

from __future__ import annotations

from math import log10

from ..interpret.draw.svg import FAINT, INK, SOFT, Svg, line
from .forecast import Plan, Step

WIDTH, HEIGHT, LEFT, TOP = 760.0, 420.0, 70.0, 70.0
COLOURS = ("#0060a0", "#009e73", "#7b4fa3", "#d55e00", "#c0a000", "#b03060", "#35a7c9")


def draw_plan(found: Plan) -> str:
    """With overlap; dashed without. The grey line is what hosts would yield that never talk."""
    svg = Svg()
    most = found.hosts[-1]
    top = max(most / found.job.compute, max(step.rate for step in found.steps))
    scale = Scale(found.hosts[0], most, min(step.rate for step in found.steps), top)
    svg.text(LEFT, 26, "Batches per second over hosts", font_size=14, font_weight="bold")
    job = found.job
    facts = f"{job.nbytes / 1e9:.4g} GB of gradients, {job.compute * 1e3:.4g} ms of computation a step"
    svg.text(LEFT, 44, f"{facts}, {8e-9 / job.link.beta:.4g} Gbit/s", fill=SOFT)
    _draw_axes(svg, scale, found)
    ideal = [(hosts, hosts / found.job.compute) for hosts in found.hosts]
    svg.path([_line(scale, ideal)], stroke=FAINT, stroke_width=3, fill="none")
    for index, name in enumerate(found.strategies):
        colour = COLOURS[index % len(COLOURS)]
        for overlapped, dashes in ((False, "3 4"), (True, "")):
            steps = found.of(name, overlapped=overlapped)
            style = {"stroke_dasharray": dashes} if dashes else {}
            svg.path(
                [_line(scale, _points(steps))],
                stroke=colour,
                stroke_width=1.8 if overlapped else 1,
                fill="none",
                **style,
            )
        y = TOP + 16 + 18 * index
        svg.path([line(LEFT + WIDTH + 20, y - 4, LEFT + WIDTH + 44, y - 4)], stroke=colour, stroke_width=2.4)
        svg.text(LEFT + WIDTH + 50, y, name)
    y = TOP + 16 + 18 * len(found.strategies)
    svg.path([line(LEFT + WIDTH + 20, y - 4, LEFT + WIDTH + 44, y - 4)], stroke=FAINT, stroke_width=3)
    svg.text(LEFT + WIDTH + 50, y, "if hosts never talked")
    svg.text(LEFT + WIDTH + 20, y + 22, "solid: overlapped with computation", font_size=10, fill=SOFT)
    svg.text(LEFT + WIDTH + 20, y + 36, "dashed: one after the other", font_size=10, fill=SOFT)
    return svg.document(LEFT + WIDTH + 250, TOP + HEIGHT + 60, "Scaling")


class Scale:
    """Hosts and rates as pixels, both on logarithmic axes."""

    def __init__(self, fewest: int, most: int, least: float, top: float) -> None:
        self.low, self.high = log10(fewest), log10(max(most, fewest + 1))
        self.least, self.top = log10(least) - 0.05, log10(top) + 0.05

    def x(self, hosts: float) -> float:
        return LEFT + WIDTH * (log10(hosts) - self.low) / (self.high - self.low)

    def y(self, rate: float) -> float:
        return TOP + HEIGHT * (1 - (log10(rate) - self.least) / (self.top - self.least))


def _points(steps: list[Step]) -> list[tuple[int, float]]:
    return [(step.hosts, step.rate) for step in steps]


def _line(scale: Scale, points: list[tuple[int, float]]) -> str:
    return "".join(f"{'L' if i else 'M'}{scale.x(x):.1f} {scale.y(y):.1f}" for i, (x, y) in enumerate(points))


def _draw_axes(svg: Svg, scale: Scale, found: Plan) -> None:
    bottom = TOP + HEIGHT
    svg.path([line(LEFT, bottom, LEFT + WIDTH, bottom), line(LEFT, TOP, LEFT, bottom)], stroke=INK)
    free = 0.0
    for hosts in found.hosts:
        x = scale.x(hosts)
        svg.path([line(x, bottom, x, bottom + 4)], stroke=INK)
        if x >= free:
            svg.text(x, bottom + 18, str(hosts), text_anchor="middle", font_size=10)
            free = x + 26
    svg.text(LEFT + WIDTH / 2, bottom + 38, "hosts", text_anchor="middle", fill=SOFT)
    for power in range(int(scale.least) - 1, int(scale.top) + 2):
        for digit in (1, 2, 5):
            rate = digit * 10.0**power
            if scale.least <= log10(rate) <= scale.top:
                y = scale.y(rate)
                svg.path([line(LEFT, y, LEFT + WIDTH, y)], stroke=FAINT, stroke_width=0.5)
                svg.text(LEFT - 8, y + 4, f"{rate:g}", text_anchor="end", font_size=10)
