"""``unisono trace``: what the ranks of a job wrote about their calls."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..trace import merge as merging
from ..trace.read import read_directory
from ..trace.summary import CallOfAll, Part, Summary, summarise
from .units import format_bytes, format_seconds

app = typer.Typer(help="What the ranks of a job did when, after a run with UNISONO_TRACE=DIR.", no_args_is_help=True)


@app.callback()
def _commands() -> None:
    """With a callback, a single command still has its name."""


@app.command()
def merge(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="What UNISONO_TRACE was set to.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="DIR/merged.json if not given.")
    ] = None,
    partial: Annotated[bool, typer.Option("--partial", help="Do without the ranks whose files are missing.")] = False,
) -> None:
    """Join the traces of all ranks on rank 0's clock, for ui.perfetto.dev or chrome://tracing."""
    traces = read_directory(directory, partial=partial)
    path = output or directory / "merged.json"
    merging.write(merging.merge(traces), traces, path)
    print("\n".join([*describe(summarise(traces)), f"{path}: open it at https://ui.perfetto.dev"]))


def describe(summary: Summary) -> list[str]:
    """A few lines about a run."""
    of = "" if len(summary.ranks) == summary.size else f" of {summary.size}"
    ranks = f"{_count(len(summary.ranks), 'rank')}{of} on {_count(summary.hosts, 'host')}"
    lines = [f"{ranks}, {_count(summary.calls, 'call')} in {format_seconds(summary.span)}"]
    if summary.slowest:
        lines.append(f"slowest: {_slowest(summary.slowest)}")
    if summary.awaited:
        ((rank, seconds),) = summary.awaited.most_common(1)
        lines.append(f"awaited most: rank {rank}, {format_seconds(seconds)} by all others together")
    lines += [f"rank {part.rank} did not finish {_name(part)}" for part in summary.unfinished]
    if summary.missing:
        lines.append(f"{_count(summary.missing, 'call')} went by too fast to be written")
    if summary.clock_error:
        lines.append(f"clocks agree within {format_seconds(summary.clock_error)}")
    return lines


def _slowest(call: CallOfAll) -> str:
    part = call.longest
    text = f"{_name(part)}, {format_seconds(part.duration)} on rank {part.rank}"
    if len(call.parts) > 1:
        text += f"; rank {call.last.rank} came last, {format_seconds(call.spread)} after the first"
    return text


def _name(part: Part) -> str:
    number = f" #{part.facts['sequence']}" if "sequence" in part.facts else ""
    where = f" at {part.facts['where']}" if "where" in part.facts else ""
    return f"{part.name}{number} of {format_bytes(part.facts.get('bytes', 0))}{where}"


def _count(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"
