"""Results as a picture: time over size, and below it our ratio to the best peer; a column for each number of ranks."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from ..errors import ConfigError
from .ratios import Standing, standings
from .results import Results
from .wording import name_size, name_time

COLOURS = {
    "unisono": "#1f5aa8",
    "unisono empty()": "#35a7c9",
    "impi": "#c8553d",
    "openmpi": "#e09f3e",
    "mpich": "#6a994e",
    "gloo": "#8a8a8a",
}
MARKERS = {"impi": "s", "openmpi": "^", "mpich": "D", "gloo": "v"}
INK, FAINT = "#333333", "#dddddd"
MOST_TICKS = 9
SMALLEST_RATIO, LARGEST_RATIO = 0.05, 200.0  # a single bad round should not flatten the rest
STYLE = {
    "font.size": 9,
    "axes.edgecolor": "#999999",
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def check_picture(path: Path) -> None:
    """Refuse one that cannot be drawn before anything is measured for it."""
    if not path.absolute().parent.is_dir():
        raise ConfigError(f"--plot {path}: there is no directory {path.absolute().parent}")
    try:
        kinds = import_module("matplotlib.backend_bases").FigureCanvasBase.get_supported_filetypes()
    except ImportError as error:
        raise ConfigError(f"--plot {path} needs matplotlib: pip install 'unisono[bench]'") from error
    if path.suffix.removeprefix(".") not in kinds:
        raise ConfigError(f"--plot {path}: a picture ends with one of .{', .'.join(sorted(kinds))}")


def draw(results: Results, path: Path) -> None:
    """Write a figure; the end of the file's name says of which kind."""
    check_picture(path)
    with import_module("matplotlib").rc_context(STYLE):
        figure = _figure(results, standings(results))
        try:
            figure.savefig(path, dpi=150, facecolor="white")
        except OSError as error:
            raise ConfigError(f"--plot {path}: {error.strerror}") from error


def _figure(results: Results, found: list[Standing]) -> Any:
    titles = list(dict.fromkeys(one.cell.title for one in found))
    counts = sorted({one.cell.ranks for one in found})
    rows = 2 if results.peers else 1
    width, height = 1.2 + 4.6 * len(counts), 1.0 + len(titles) * (4.6 if results.peers else 3.4)
    figure = import_module("matplotlib.figure").Figure(figsize=(max(width, 7.5), height), layout="constrained")
    figure.get_layout_engine().set(w_pad=0.08, h_pad=0.06)
    ratios = [2, 1][:rows] * len(titles)
    grid = figure.subplots(rows * len(titles), len(counts), sharey="row", squeeze=False, height_ratios=ratios)
    for band, title in enumerate(titles):
        for column, ranks in enumerate(counts):
            here = [one for one in found if (one.cell.title, one.cell.ranks) == (title, ranks)]
            panels = [grid[rows * band + row][column] for row in range(rows)]
            _draw_panels(panels, here, results, label=column == 0)
    _explain(figure, grid, results)
    return figure


def _draw_panels(panels: list[Any], here: list[Standing], results: Results, *, label: bool) -> None:
    if not here:  # an interrupted run did not come so far
        for panel in panels:
            panel.set_visible(False)
        return
    cell = here[0].cell
    panels[0].set_title(f"{cell.title}, {cell.ranks} rank{'s' * (cell.ranks > 1)}", loc="left", fontweight="bold")
    _draw_times(panels[0], here, results, label=label)
    if results.peers:
        panels[0].tick_params(labelbottom=False)
        _draw_ratios(panels[1], here, results, label=label)
        panels[1].set_xlim(panels[0].get_xlim())
    panels[-1].set_xlabel("bytes of the vector" if cell.nbytes else "")


def _explain(figure: Any, grid: Any, results: Results) -> None:
    """Who is who, and what this is."""
    lines: dict[str, Any] = {}
    for axes in grid.flat:
        lines |= {name: line for line, name in zip(*axes.get_legend_handles_labels(), strict=True)}
    names = [name for name in (*results.ours, *results.peers) if name in lines]
    shown = [lines[name] for name in names]
    figure.legend(shown, names, loc="outside upper center", ncols=min(6, len(names)), frameon=False)
    rounds = len({one.round for one in results.measurements})
    note = f"float32, links {results.links}, {rounds} round{'s' * (rounds > 1)}; bands are quartiles. {results.machine}"
    figure.supxlabel(note, fontsize=7.5, color="#777777", x=0.99, ha="right")


def _draw_times(axes: Any, here: list[Standing], results: Results, *, label: bool) -> None:
    for name in (*results.peers, *results.ours):
        mine = sorted((one for one in here if one.contestant == name), key=lambda one: one.cell.nbytes)
        if mine:
            x = _places(mine, results)
            axes.plot(x, [one.time.median for one in mine], label=name, **_look(name, name in results.ours))
            _band(axes, x, [one.time for one in mine], name)
    _size_axis(axes, here, results)
    axes.set_yscale("log")
    ticker = import_module("matplotlib.ticker")
    if axes.get_ylim()[1] < 100 * axes.get_ylim()[0]:
        axes.yaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: name_time(value)))
    axes.yaxis.set_minor_formatter(ticker.NullFormatter())
    if label:
        axes.set_ylabel("time of a call")


def _draw_ratios(axes: Any, here: list[Standing], results: Results, *, label: bool) -> None:
    ratios: list[float] = []
    for name in results.ours:
        mine = sorted((one for one in here if one.contestant == name and one.ratio), key=lambda one: one.cell.nbytes)
        bands = [one.ratio for one in mine if one.ratio]
        if bands:
            x = _places(mine, results)
            axes.plot(x, [band.median for band in bands], **_look(name, True))
            _band(axes, x, bands, name)
            ratios += [value for band in bands for value in band]
    _size_axis(axes, here, results)
    _ratio_axis(axes, ratios or [1.0])
    if label:
        axes.set_ylabel("our time ÷\nbest peer's")


def _look(name: str, ours: bool) -> dict[str, Any]:
    return {
        "color": COLOURS.get(name, INK),
        "marker": MARKERS.get(name, "o"),
        "markersize": 5 if ours else 3.5,
        "linewidth": 2.2 if ours else 1.1,
        "zorder": 3 if ours else 2,
    }


def _band(axes: Any, x: list[int], spreads: list[Any], name: str) -> None:
    lower, upper = [each.lower for each in spreads], [each.upper for each in spreads]
    axes.fill_between(x, lower, upper, color=COLOURS.get(name, INK), alpha=0.15, linewidth=0, zorder=1)


def _places(mine: list[Standing], results: Results) -> list[int]:
    """By size. Where there is none, as for a barrier, everybody has a place of its own."""
    names = [*results.ours, *results.peers]
    return [one.cell.nbytes or 2 ** names.index(one.contestant) for one in mine]


def _size_axis(axes: Any, here: list[Standing], results: Results) -> None:
    ticks = {place: name_size(place) for place in sorted({one.cell.nbytes for one in here if one.cell.nbytes})}
    if not ticks:
        ticks = {_places([one], results)[0]: one.contestant for one in here}
    shown = list(ticks)[:: -(-len(ticks) // MOST_TICKS)]
    few = len(shown) <= 5
    axes.set_xscale("log", base=2)
    axes.set_xticks(
        shown, [ticks[place] for place in shown], rotation=0 if few else 35, ha="center" if few else "right"
    )
    axes.set_xticks([], minor=True)
    axes.grid(axis="both", color=FAINT, linewidth=0.6)
    axes.set_axisbelow(True)


def _ratio_axis(axes: Any, ratios: list[float]) -> None:
    low = max(SMALLEST_RATIO, min([*ratios, 0.5]) * 0.8)
    high = min(LARGEST_RATIO, max([*ratios, 1.0]) * 1.25)
    shared = axes.get_ylim() if axes.get_yscale() == "log" else (low, high)  # of the panels of a row, the widest
    axes.set_yscale("log")
    axes.set_ylim(min(low, shared[0]), max(high, shared[1]))
    ticker = import_module("matplotlib.ticker")
    axes.yaxis.set_major_locator(ticker.FixedLocator([0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100]))
    axes.yaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_locator(ticker.NullLocator())
    axes.axhspan(0.001, 1, color="#e8f3e8", zorder=0, linewidth=0)
    axes.axhline(1, color=INK, linewidth=0.8, zorder=2)
    where = {"transform": axes.transAxes, "ha": "left", "va": "bottom"}
    axes.text(0.012, 0.03, "faster than every peer", color="#5b8a5b", fontsize=7.5, **where)
