"""``unisono plan``: how far training would scale, and what that would cost."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from ..errors import ConfigError
from ..interpret.draw.timeline import format_seconds as brief_seconds
from ..interpret.machine import Link
from ..plan import Job, Plan, plan
from ..plan.advice import Advice, advise
from ..plan.draw import draw_plan
from ..plan.forecast import Step
from ..plan.job import BACKWARD
from .choices import clamp
from .simulate_files import require_writable, write
from .units import format_bytes, format_seconds, parse_bandwidth, parse_bytes, parse_seconds

MOST_HOSTS, MOST_PER_HOST, MOST_RANKS = 4096, 1024, 1 << 18
MOST_COLUMNS = 7


def plan_command(
    model_bytes: Annotated[str, typer.Option(help="Gradients that are added up in every step: 4GB.")],
    compute_ms: Annotated[float, typer.Option(help="Milliseconds that a host computes in a step.")],
    hosts: Annotated[str, typer.Option(help="1:64, or 1,2,4,8.")] = "1:64",
    link: Annotated[str, typer.Option(help="Of every host, in each direction.")] = "10gbit",
    price: Annotated[str | None, typer.Option(help="Of a host: 2.5/h.")] = None,
    alpha: Annotated[str, typer.Option(help="Time to start a message.")] = "30us",
    gamma: Annotated[str, typer.Option(help="Time to add up a byte.")] = "0.1ns",
    per_host: Annotated[int, typer.Option(help="Ranks (GPUs) of a host, which share its link.")] = 1,
    local_link: Annotated[str, typer.Option(help="Between ranks of a host.")] = "100Gbit",
    local_alpha: Annotated[str, typer.Option(help="Time to start a message inside a host.")] = "2us",
    buckets: Annotated[int, typer.Option(help="Parts that gradients are handed over in, with overlap.")] = 16,
    backward: Annotated[float, typer.Option(help="Part of the computation in which gradients come out.")] = BACKWARD,
    plot: Annotated[Path | None, typer.Option(help="Write a picture to this SVG file.", metavar="FILE")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Forecast training on more hosts: time per step, efficiency, cost, and what would help."""
    if not 0 < compute_ms < float("inf"):
        raise ConfigError(f"--compute-ms {compute_ms:g}: a step computes for longer than 0 ms; try 300")
    counts = parse_hosts(hosts)
    _require_per_host(per_host, max(counts))
    job = Job(
        parse_bytes(model_bytes),
        compute_ms / 1e3,
        Link(parse_seconds(alpha), 1 / parse_bandwidth(link)),
        parse_seconds(gamma),
        per_host,
        Link(parse_seconds(local_alpha), 1 / parse_bandwidth(local_link)),
        buckets,
        backward,
    )
    hourly = None if price is None else parse_price(price)
    if plot is not None:
        _check_plot(plot, counts)
    found = plan(job, counts)
    advice = advise(found)
    if plot is not None:
        write(plot, draw_plan(found))
    if as_json:
        print(json.dumps(_fields(found, advice, hourly), indent=2))
    else:
        _show(found, advice, hourly)


def parse_hosts(text: str) -> list[int]:
    """1:64 is from 1 to 64, in steps that grow; 1,2,4 is just that."""
    if re.fullmatch(r"\d+(,\d+)*", text):
        counts = [int(part) for part in text.split(",")]
    elif match := re.fullmatch(r"(\d+):(\d+)", text):
        first, last = int(match[1]), int(match[2])
        if first > last:
            raise ConfigError(f"--hosts {text}: the first is above the last; the nearest is {last}:{first}")
        _require_hosts(text, first, last)
        growing = [step << power for power in range(13) for step in (2, 3)]
        counts = [first, *(count for count in growing if first < count < last), last]
    else:
        raise ConfigError(f"--hosts {text}: write 1:64, or 1,2,4,8")
    _require_hosts(text, *counts)
    return counts


def _require_hosts(text: str, *counts: int) -> None:
    for count in counts:
        if not 1 <= count <= MOST_HOSTS:
            raise ConfigError(
                f"--hosts {text}: there are 1 to {MOST_HOSTS} hosts, not {count}; "
                f"the nearest is {clamp(count, 1, MOST_HOSTS)}"
            )


def _require_per_host(per_host: int, hosts: int) -> None:
    most = min(MOST_PER_HOST, MOST_RANKS // hosts)
    if not 1 <= per_host <= most:
        raise ConfigError(
            f"--per-host {per_host}: on {_hosts(hosts)} there are 1 to {most} ranks per host; "
            f"the nearest is {clamp(per_host, 1, most)}"
        )


def _check_plot(path: Path, counts: list[int]) -> None:
    if path.suffix != ".svg":
        raise ConfigError(f"--plot {path}: the picture is an SVG; the nearest is {path.with_suffix('.svg')}")
    if len(set(counts)) == 1:
        raise ConfigError(f"--plot {path}: lines need several numbers of hosts; try --hosts 1:{max(2, *counts)}")
    require_writable(path)


def parse_price(text: str) -> float:
    """Money per host and hour."""
    match = re.fullmatch(r"\s*([-+]?[\d.]+)\s*(?:/\s*([a-z]+))?\s*", text)
    hours = {"h": 1.0, "hour": 1.0, "d": 24.0, "day": 24.0, "month": 730.0}
    try:
        value, unit = float(match[1]), match[2] or "h"  # type: ignore[index]
    except (TypeError, ValueError):
        raise ConfigError(f"--price {text}: write it as 2.5/h") from None
    if unit not in hours:
        raise ConfigError(f"--price {text}: a price is per h, day or month; did you mean {value:g}/h?")
    if value < 0:
        raise ConfigError(f"--price {text}: a price is from 0 up; the nearest is 0/h")
    return value / hours[unit]


def _show(found: Plan, advice: Advice, hourly: float | None) -> None:
    console = Console(width=None if sys.stdout.isatty() else 160, highlight=False)
    job = found.job
    console.print(
        f"[bold]{format_bytes(job.nbytes)} of gradients, {format_seconds(job.compute)} of computation a step, "
        f"{8e-9 / job.link.beta:.4g} Gbit/s per host[/]\n"
    )
    shown = _columns(found.hosts)
    for overlapped, title in ((False, "step, one after the other"), (True, "step, overlapped")):
        console.print(_step_table(found, shown, title, overlapped=overlapped))
        console.print()
    console.print(_best_table(found, hourly))
    console.print()
    for sentence in sentences(found, advice):
        console.print(sentence)


def _columns(hosts: tuple[int, ...]) -> list[int]:
    if len(hosts) <= MOST_COLUMNS:
        return list(hosts)
    places = {round(i * (len(hosts) - 1) / (MOST_COLUMNS - 1)) for i in range(MOST_COLUMNS)}
    return [hosts[place] for place in sorted(places)]


def _step_table(found: Plan, shown: list[int], title: str, *, overlapped: bool) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column(title, no_wrap=True)
    for hosts in shown:
        table.add_column(_hosts(hosts), justify="right", no_wrap=True)
    for name in found.strategies:
        steps = {step.hosts: step for step in found.of(name, overlapped=overlapped)}
        table.add_row(name, *(_cell(steps.get(hosts)) for hosts in shown))
    return table


def _cell(step: Step | None) -> str:
    if step is None:
        return "–"
    servers = f" k={step.exchange.servers}" if step.exchange.servers and step.exchange.workers < step.hosts else ""
    return f"{brief_seconds(step.time)} {100 * step.efficiency:.0f} %{servers}"


def _best_table(found: Plan, hourly: float | None) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    names = ["hosts", "best", "exchange", "step", "efficiency", "batches/s", "× one host"]
    for name in names + ([] if hourly is None else ["per 1,000 batches"]):
        table.add_column(name, justify="left" if name == "best" else "right", no_wrap=True)
    for hosts in found.hosts:
        step = found.best(hosts)
        whole = step.exchange.time * (found.job.buckets if step.overlapped else 1)
        row = [str(hosts), step.strategy, format_seconds(whole), format_seconds(step.time)]
        row += [f"{100 * step.efficiency:.0f} %", f"{step.rate:.4g}", f"{step.rate / found.lone.rate:.3g}"]
        table.add_row(*row, *([] if hourly is None else [f"{step.cost(hourly):.4g}"]))
    return table


def sentences(found: Plan, advice: Advice) -> list[str]:
    """What it comes to."""
    step, most = advice.step, advice.most
    said = [
        f"On {_hosts(step.hosts)}, {step.strategy} is best, and {advice.bottleneck} the bottleneck: "
        f"{100 * advice.share:.0f} % of a step."
    ]
    best, second = advice.changes[0], advice.changes[1]
    said.append(
        f"What would help most: {best.what} ({best.gain:.2f} × the batches per second); then {second.what} "
        f"({second.gain:.2f} ×)."
    )
    if advice.breaks_even is not None:
        if advice.breaks_even < 0:
            said.append("No number of hosts here is faster than one host alone.")
        else:
            said.append(f"Several hosts are slower than one until there are {advice.breaks_even}.")
    if advice.stops_paying is None:
        if step.hosts > 1:
            said.append(_still_pays(step.hosts, advice.pays_from))
    else:
        said.append(
            f"Adding machines stops paying at {advice.stops_paying}: beyond, each adds less than half of what a lone "
            f"host yields. Most batches per second: {most.rate:.4g}, on {_hosts(most.hosts)}."
        )
    return said


def _still_pays(hosts: int, pays_from: int | None) -> str:
    since = "each adds" if pays_from is None else f"from {pays_from} on, each adds"
    return f"Adding machines still pays at {hosts}: {since} at least half of what a lone host yields."


def _hosts(count: int) -> str:
    return f"{count} host{'s' * (count > 1)}"


def _fields(found: Plan, advice: Advice, hourly: float | None) -> dict[str, Any]:
    return {
        "model_bytes": found.job.nbytes,
        "compute_seconds": found.job.compute,
        "hosts": list(found.hosts),
        "steps": [
            {
                "strategy": step.strategy,
                "hosts": step.hosts,
                "overlapped": step.overlapped,
                "workers": step.exchange.workers,
                "servers": step.exchange.servers,
                "exchange_seconds": step.exchange.time * (found.job.buckets if step.overlapped else 1),
                "step_seconds": step.time,
                "efficiency": step.efficiency,
                "batches_per_second": step.rate,
                **({} if hourly is None else {"cost_per_1000_batches": step.cost(hourly)}),
            }
            for step in found.steps
        ],
        "best": [{"hosts": hosts, "strategy": found.best(hosts).strategy} for hosts in found.hosts],
        "bottleneck": {"what": advice.bottleneck, "share": advice.share},
        "changes": [change._asdict() for change in advice.changes],
        "stops_paying": advice.stops_paying,
        "pays_from": advice.pays_from,
        "breaks_even": advice.breaks_even,
        "conclusions": sentences(found, advice),
    }
