"""How a simulation is shown: a table, and the same as JSON."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from ..schedule.schedule import Schedule
from ..simulate import Outcome
from ..simulate.outcome import Stall
from .units import format_bytes, format_seconds

MOST_LINKS = 5
MOST_STUCK = 8


def fields(outcome: Outcome) -> dict[str, Any]:
    """All that a program may want to know."""
    result: dict[str, Any] = {
        "collective": outcome.collective,
        "algorithm": outcome.algorithm,
        "ranks": outcome.p,
        "bytes": outcome.nbytes,
        "topology": outcome.topology.name,
        "mode": outcome.mode,
        "seconds": outcome.time,
        "terms": outcome.terms._asdict(),
        "mean_waiting": outcome.mean_waiting,
        "bound_seconds": outcome.bound,
        "multiple_of_bound": outcome.multiple_of_bound,
        "rounds": outcome.rounds,
        "messages": outcome.messages,
    }
    if outcome.stall is not None:
        result["stall"] = _stall_fields(outcome.stall)
    return result | {
        "bottleneck": outcome.bottleneck.name,
        "links": [
            {"name": use.name, "bytes": use.nbytes, "busy_seconds": use.busy, "busy": outcome.utilisation(use)}
            for use in outcome.busiest(20)
        ],
    }


def _stall_fields(stall: Stall) -> dict[str, Any]:
    order = _by_time(stall)
    return {
        "rank": stall.rank,
        "round": stall.round + 1,
        "ranks_stuck": stall.stuck,
        "first": [
            {
                "rank": int(rank),
                "round": int(stall.last_round[rank]) + 1,
                "waits_for": int(stall.waits_for[rank]),
                "since": float(stall.since[rank]),
            }
            for rank in order[:100]
        ],
    }


def show(outcome: Outcome) -> None:
    """For a person."""
    console = _console()
    how = "in lockstep" if outcome.mode == "lockstep" else "as flows"
    verb, multiple = "stalls after", ""
    if not outcome.never_ends:
        verb, multiple = "takes", f", {outcome.multiple_of_bound:.3g} × the bound of {format_seconds(outcome.bound)}"
    console.print(
        f"[bold]{outcome.collective} of {format_bytes(outcome.nbytes)} among {outcome.p:,} ranks on "
        f"{outcome.topology.name}[/]\n"
        f"{outcome.algorithm}, {how}: {verb} [bold]{format_seconds(outcome.time)}[/]{multiple}; "
        f"{outcome.rounds:,} rounds, {outcome.messages:,} messages\n"
    )
    _show_terms(console, outcome)
    if not outcome.never_ends:
        _show_links(console, outcome)
    if outcome.stall is not None:
        _show_stall(console, outcome.stall, outcome.p)


def _show_terms(console: Console, outcome: Outcome) -> None:
    names = ("start-up α", "transit β", "reducing γ", "waiting")
    whole = outcome.time or 1.0
    parts = [
        f"{name} {format_seconds(part)} ({100 * part / whole:.0f} %)"
        for name, part in zip(names, outcome.terms, strict=True)
    ]
    whose = "of the busiest rank of each round" if outcome.mode == "lockstep" else "of the rank that ends last"
    console.print(f"time {whose}: {', '.join(parts)}")
    if outcome.mode == "flows" and outcome.mean_waiting:
        console.print(f"a rank waits {format_seconds(outcome.mean_waiting)} on the average, for others or for a link")


def _show_links(console: Console, outcome: Outcome) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for name in ("busiest", "bytes", "busy", "of the time"):
        table.add_column(name, justify="left" if name == "busiest" else "right", no_wrap=True)
    for use in outcome.busiest(MOST_LINKS):
        share = f"{100 * outcome.utilisation(use):.0f} %"
        table.add_row(use.name, format_bytes(use.nbytes), format_seconds(use.busy), share)
    console.print()
    console.print(table)
    busiest = outcome.bottleneck
    ports = " (a rank's own: no link between ranks is busier)" if busiest.name.startswith("port") else ""
    console.print(f"bottleneck: {busiest.name}{ports}")


def _show_stall(console: Console, stall: Stall, p: int) -> None:
    failure = f"\nrank {stall.rank} fails in round {stall.round + 1}"
    if not stall.stuck:
        console.print(f"{failure}, and nobody needs it any more")
        return
    console.print(f"{failure}: {stall.stuck:,} of the other {p - 1:,} ranks never end")
    for rank in _by_time(stall)[:MOST_STUCK]:
        console.print(
            f"  rank {rank} waits for rank {stall.waits_for[rank]} in round {stall.last_round[rank] + 1}, "
            f"since {format_seconds(float(stall.since[rank]))}"
        )
    if stall.stuck > MOST_STUCK:
        console.print(f"  … and {stall.stuck - MOST_STUCK:,} more")


def _by_time(stall: Stall) -> np.ndarray:
    """Who is stuck, the first ones first."""
    stuck = np.flatnonzero(stall.last_round >= 0)
    stuck = stuck[stuck != stall.rank]
    return np.asarray(stuck[np.lexsort((stuck, stall.since[stuck], stall.last_round[stuck]))])


def show_candidates(found: list[tuple[Schedule, Outcome]], left_out: list[str]) -> None:
    """Every algorithm in lockstep, the best first."""
    console = _console()
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for name in ("algorithm", "in lockstep", "× bound", "α", "β", "γ", "waiting", "bottleneck"):
        table.add_column(name, justify="left" if name in ("algorithm", "bottleneck") else "right", no_wrap=True)
    for place, (schedule, outcome) in enumerate(found):
        idle = f" ({schedule.workers} of {schedule.p} contribute)" if schedule.workers < schedule.p else ""
        table.add_row(
            schedule.name + idle,
            format_seconds(outcome.time),
            f"{outcome.multiple_of_bound:.3g}",
            *(f"{100 * part / (outcome.time or 1):.0f} %" for part in outcome.terms),
            outcome.bottleneck.name,
            style="bold green" if place == 0 else None,
        )
    console.print(table)
    if left_out:
        console.print(f"left out, too many messages in a round: {', '.join(left_out)}")
    console.print()


def _console() -> Console:
    return Console(width=None if sys.stdout.isatty() else 160, highlight=False)
