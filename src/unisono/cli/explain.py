"""``unisono explain``: what every algorithm would cost, or one algorithm drawn."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from ..comm.comparison import Comparison
from ..comm.start import init
from ..errors import ConfigError
from ..interpret.draw import draw_spacetime_text, draw_svg, draw_text
from ..interpret.explain import best_price
from ..interpret.explain import explain as explain_all
from ..interpret.machine import Link, Machine
from ..interpret.memory import extra_memory
from ..interpret.price import Price, price
from ..launcher.function import launch
from ..schedule.spelling import parse_algorithm
from .choices import clamp, require_ranks
from .units import format_bytes, format_seconds, parse_bandwidth, parse_bytes, parse_seconds

MOST_RANKS_DRAWN = 64
MOST_RANKS_MEASURED = 64
EXAMPLES = "Sizes such as 64MiB or 1GB, times such as 30us, bandwidths such as 10Gbit."


def explain(
    collective: Annotated[str, typer.Argument(help="allreduce, broadcast, …")],
    ranks: Annotated[int, typer.Option(help="How many ranks take part.")],
    size: Annotated[str, typer.Option("--bytes", help="The vector: 64MiB, 1GB, 8.")] = "64MiB",
    algorithm: Annotated[
        str | None, typer.Option(help="Draw this one; with parameters: pipelined_chain:segments=16, mesh_2d:dims=4x2.")
    ] = None,
    root: Annotated[int, typer.Option(help="The root, where the collective has one.")] = 0,
    alpha: Annotated[str, typer.Option(help="Time to start a message.")] = "30us",
    bandwidth: Annotated[str, typer.Option(help="Of every link, in each direction.")] = "10Gbit",
    gamma: Annotated[str, typer.Option(help="Time to reduce a byte.")] = "0.1ns",
    svg: Annotated[Path | None, typer.Option(help="Write the drawing to this file.", metavar="FILE")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    measured: Annotated[
        bool, typer.Option("--measured", help="Start the ranks here, and run all that there are.")
    ] = False,
) -> None:
    """Price every algorithm for a collective, best first; with --algorithm, draw one."""
    require_ranks(collective, ranks, root)
    nbytes = parse_bytes(size)
    if measured:
        if algorithm or svg or root:
            raise ConfigError("--measured runs all algorithms, from root 0: leave out --algorithm, --svg and --root")
        _show_measured(collective, ranks, nbytes, as_json=as_json)
        return
    link = Link(parse_seconds(alpha), 1 / parse_bandwidth(bandwidth))
    machine = Machine(link, parse_seconds(gamma))
    if algorithm is None:
        if svg:
            raise ConfigError("--svg needs --algorithm, to know which one to draw")
        prices = explain_all(collective, ranks, nbytes, machine, root)
        _show_json(prices) if as_json else _show_table(prices)
        return
    chosen = _price_one(collective, algorithm, ranks, nbytes, machine, root)
    if svg:
        _write_svg(chosen, svg)
    if as_json:
        _show_json([chosen])
        return
    if ranks <= MOST_RANKS_DRAWN:
        print(draw_text(chosen.schedule.table))
        print(draw_spacetime_text(chosen.schedule.table, chosen.nbytes, chosen.machine))
    _show_table([chosen])
    if ranks > MOST_RANKS_DRAWN:
        print(f"Drawings are for up to {MOST_RANKS_DRAWN} ranks.")


def compare_here(collective: str, nbytes: int) -> Comparison:
    """One of the ranks that are started here."""
    with init() as comm:
        return comm.explain(collective, nbytes, measured=True)


def _show_measured(collective: str, ranks: int, nbytes: int, *, as_json: bool) -> None:
    if not 2 <= ranks <= MOST_RANKS_MEASURED:
        nearest = clamp(ranks, 2, MOST_RANKS_MEASURED)
        raise ConfigError(f"--ranks {ranks}: with --measured, 2 to {MOST_RANKS_MEASURED} start here; try {nearest}")
    comparison = launch(compare_here, ranks, collective, nbytes)[0]
    print(json.dumps(comparison.facts(), indent=2) if as_json else comparison)


def _price_one(collective: str, text: str, ranks: int, nbytes: int, machine: Machine, root: int) -> Price:
    algorithm, parameters = parse_algorithm(collective, text)
    if not parameters:
        return best_price(algorithm, ranks, nbytes, machine, root)
    return price(algorithm.schedule(ranks, root, **parameters), nbytes, machine)


def _write_svg(chosen: Price, path: Path) -> None:
    if chosen.schedule.p > MOST_RANKS_DRAWN:
        raise ConfigError(f"drawings are for up to {MOST_RANKS_DRAWN} ranks; try --ranks {MOST_RANKS_DRAWN}")
    try:
        path.write_text(draw_svg(chosen.schedule.table, chosen.nbytes, chosen.machine), encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}") from error


def _show_json(prices: list[Price]) -> None:
    print(json.dumps([_fields(candidate) for candidate in prices], indent=2))


def _fields(candidate: Price) -> dict[str, Any]:
    schedule = candidate.schedule
    rounds, wire, arithmetic = candidate.multiples
    return {
        "collective": schedule.collective.name,
        "algorithm": schedule.name,
        "parameters": {
            name: value if _is_short(value) else _brief(value) for name, value in _parameters(candidate).items()
        },
        "ranks": schedule.p,
        "contributors": schedule.workers,
        "root": schedule.root,
        "bytes": candidate.nbytes,
        "seconds": candidate.time,
        "multiple_of_bound": candidate.time / candidate.bound_time if candidate.bound_time else 1.0,
        "rounds": candidate.rounds,
        "bytes_sent_most": candidate.sent.max(),
        "bytes_sent_total": candidate.sent.sum(),
        "bytes_received_most": candidate.received.max(),
        "bytes_reduced_most": candidate.reduced.max(),
        "extra_memory": _extra_memory(candidate),
        "multiples": {"rounds": rounds, "bytes": wire, "reduced": arithmetic},
    }


def _extra_memory(candidate: Price) -> int | None:
    schedule = candidate.schedule
    if schedule.p > MOST_RANKS_DRAWN:
        return None
    return int(extra_memory(schedule.table, candidate.nbytes).max())


def _show_table(prices: list[Price]) -> None:
    first = prices[0]
    schedule, machine = first.schedule, first.machine
    console = Console(width=None if sys.stdout.isatty() else 160, highlight=False)
    root = f", root {schedule.root}" if schedule.collective.rooted else ""
    console.print(
        f"{schedule.collective.name} of {format_bytes(first.nbytes)} among {schedule.p:,} ranks{root}: "
        f"α {format_seconds(machine.link.alpha)}, β {8e-9 / machine.link.beta:.4g} Gbit/s, "
        f"γ {format_seconds(machine.gamma)} per byte\nlower bound: {_bound(first)}\n"
    )
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for name in ("algorithm", "time", "× bound", "rounds", "sent/rank", "in all", "extra", "α ×", "β ×", "γ ×", ""):
        table.add_column(name, justify="left" if name in ("algorithm", "") else "right", no_wrap=name != "")
    for place, candidate in enumerate(prices):
        best = place == 0 and len(prices) > 1
        table.add_row(*_row(candidate), style="bold green" if best else None)
    console.print(table)
    if any(candidate.multiples[0] < 1 for candidate in prices):
        console.print("\nα × below 1: the bound is for one message at a time, this sends several in a round.")


def _row(candidate: Price) -> list[str]:
    fields = _fields(candidate)
    memory = fields["extra_memory"]
    return [
        candidate.schedule.name,
        format_seconds(candidate.time),
        f"{fields['multiple_of_bound']:.3g}",
        f"{candidate.rounds:,}",
        format_bytes(fields["bytes_sent_most"]),
        format_bytes(fields["bytes_sent_total"]),
        "–" if memory is None else format_bytes(memory),
        *(f"{multiple:.3g}" for multiple in candidate.multiples),
        _details(candidate),
    ]


def _details(candidate: Price) -> str:
    """The parameters, as --algorithm takes them, and who does not contribute."""
    schedule = candidate.schedule
    details = [f"{name}={_brief(value)}" for name, value in _parameters(candidate).items()]
    if schedule.workers < schedule.p:
        details.append(f"{schedule.workers} of {schedule.p} contribute")
    return ", ".join(details)


def _brief(value: int | tuple[int, ...]) -> str:
    if isinstance(value, int):
        return str(value)
    shown = "x".join(map(str, value if _is_short(value) else value[:4]))
    return shown if _is_short(value) else f"{shown}x… ({len(value)})"


def _is_short(value: int | tuple[int, ...]) -> bool:
    return isinstance(value, int) or len(value) <= 16


def _parameters(candidate: Price) -> dict[str, Any]:
    return {name: value for name, value in candidate.schedule.parameters.items() if name != "workers"}


def _bound(candidate: Price) -> str:
    bound = candidate.bound
    terms = [f"{bound.rounds} rounds", f"{format_bytes(bound.bytes)} through a link"]
    if bound.reduced:
        terms.append(f"{format_bytes(bound.reduced)} reduced")
    return f"{', '.join(terms)}: {format_seconds(candidate.bound_time)}"
