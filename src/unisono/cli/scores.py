"""The results of a benchmark as tables: a row for each of our kinds of arrays and each size, a column for each peer."""

from __future__ import annotations

import sys
from itertools import groupby

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..bench.bandwidth import bandwidths
from ..bench.ratios import Standing, standings
from ..bench.reference import TOLERANCE, Reference, deviations
from ..bench.results import Failure, Results
from ..bench.wording import name_size, name_time

MOST_DEVIATIONS = 6


def show_scores(results: Results) -> None:
    """Everything that a person wants to know of a run."""
    console = Console(width=None if sys.stdout.isatty() else 160, highlight=False)
    found = standings(results)
    for (title, ranks), some in groupby(_in_order(found), lambda one: (one.cell.title, one.cell.ranks)):
        console.print(f"\n{title}, {ranks} rank{'s' * (ranks > 1)}, float32, links {results.links}", style="bold")
        console.print(_table(list(some), results))
    for line in [*_notes(results, found), *_failures(results.failures)]:
        console.print(line, markup=False, soft_wrap=True)


def _in_order(found: list[Standing]) -> list[Standing]:
    """By collective, then by ranks, then by size; within that as they come."""
    titles = list(dict.fromkeys(one.cell.title for one in found))
    return sorted(found, key=lambda one: (titles.index(one.cell.title), one.cell.ranks, one.cell.nbytes))


def _table(some: list[Standing], results: Results) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("size", justify="right", no_wrap=True)
    table.add_column("ours", no_wrap=True, style="cyan")
    for name in ("time", "alg GB/s", "bus GB/s", "ratio", "quartiles"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("algorithm", no_wrap=True)
    for name in results.peers:
        table.add_column(name, justify="right", no_wrap=True)
    for cell, group in groupby(some, lambda one: one.cell):
        here = {one.contestant: one for one in group}
        peers = [here.get(name) for name in results.peers]
        ours = [here[name] for name in results.ours if name in here]
        for number, one in enumerate(ours):
            table.add_row(*_cells_of(one, first=number == 0), *(_times(peers) if number == 0 else []))
        if not ours:
            table.add_row(Text(name_size(cell.nbytes)), *[Text()] * 7, *_times(peers))
    return table


def _cells_of(one: Standing, *, first: bool) -> list[Text]:
    bandwidth = [f"{each:.3g}" if one.cell.nbytes else "" for each in bandwidths(one.cell, one.time.median)]
    ratio = Text(f"{one.ratio.median:.2f}", style="green" if one.ratio.median < 1 else "red") if one.ratio else Text()
    quartiles = f"{one.ratio.lower:.2f} – {one.ratio.upper:.2f}" if one.ratio else ""
    words = [name_size(one.cell.nbytes) if first else "", one.contestant, name_time(one.time.median), *bandwidth]
    return [*map(Text, words), ratio, Text(quartiles), Text(one.algorithm or "")]


def _times(peers: list[Standing | None]) -> list[Text]:
    best = min((one.time.median for one in peers if one), default=0.0)
    return [
        Text(name_time(one.time.median), style="bold" if one.time.median == best else "") if one else Text("–")
        for one in peers
    ]


def _notes(results: Results, found: list[Standing]) -> list[str]:
    if not found:
        return ["nothing was measured"]
    rounds = len({one.round for one in results.measurements})
    notes = [f"\n{results.machine}; {rounds} round{'s' * (rounds > 1)}. A time is the median over rounds."]
    if results.peers:
        notes.append("ratio: our time over that of the round's best peer, median over rounds; the best peer is bold.")
    if results.interrupted:
        notes.append(f"interrupted: {rounds} of {results.rounds} rounds, the last may lack some")
    return notes


def _failures(failures: list[Failure]) -> list[str]:
    """Each kind of failure once, with the lines of its first time."""
    lines = []
    alike: dict[tuple[str, int, str], list[Failure]] = {}
    for one in failures:
        alike.setdefault((one.contestant, one.ranks, one.what), []).append(one)
    for (name, ranks, what), times in alike.items():
        when = ", ".join(str(one.round + 1) for one in times)
        again = "; it was not tried again" if any(one.given_up for one in times) else ""
        lines.append(f"{name} on {ranks} ranks {what}, and is left out of round{'s' * (len(times) > 1)} {when}{again}:")
        lines += [f"    {line}" for line in times[0].lines or ["(it wrote nothing)"]]
    return lines


def judge_quietness(results: Results, reference: Reference) -> list[str]:
    """Whether the peers were as fast as they are known to be."""
    off, compared = deviations(standings(results), reference, results.links)
    if not compared:
        return ["the reference has none of these cells"]
    within = f"within {TOLERANCE:.0%} of {reference.machine}"
    if not off:
        return [f"quiet: all {compared} known figures of the peers are {within}"]
    lines = [f"the machine is not quiet, or another one: {len(off)} of {compared} figures of peers are not {within}"]
    for one in sorted(off, key=lambda each: abs(each.factor - 1), reverse=True)[:MOST_DEVIATIONS]:
        cell = one.standing.cell
        where = f"{one.standing.contestant}, {cell.title}, {cell.ranks} ranks, {name_size(cell.nbytes)}"
        lines.append(f"    {where}: {name_time(one.standing.time.median)}, known {name_time(one.known)}")
    return lines
