"""``unisono diagnose``: what happened to a job that failed, from what its ranks left behind."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..errors import ConfigError
from ..trace import diagnosis
from ..trace.diagnosis import Diagnosis, State
from ..trace.dump import WORLD, Failure, read
from ..trace.ends import read_ends
from ..trace.plain import to_plain
from .story import tell_story, tell_the_rest
from .units import format_seconds
from .words import name_call, name_end, name_error, place_of, place_of_frame, short

MOST_ROWS = 64
LONGEST_ERROR = 80


def diagnose(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Where the ranks wrote rank-N.failure.json.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say what happened to a job that failed: the first cause, and who waited for whom."""
    dumps, skipped = read(directory)
    found = diagnosis.diagnose(dumps, read_ends(directory, skipped))
    if found is None:
        raise ConfigError("; ".join([_nothing_in(directory), *skipped]))
    if as_json:
        print(json.dumps({**to_plain(found), "skipped": skipped}, indent=2, ensure_ascii=False))
        return
    console = Console(width=None if sys.stdout.isatty() else 160)
    for story in found.stories:
        console.print("\n".join(tell_story(found, story)), markup=False, highlight=False, soft_wrap=True)
    console.print()
    console.print(_table(found))
    if rest := [*tell_the_rest(found), *skipped]:
        console.print("\n" + "\n".join(rest), markup=False, highlight=False, soft_wrap=True, style="dim")


def _nothing_in(directory: Path) -> str:
    return (
        f"{directory} has no rank-N.failure.json that can be read. Ranks write them when a call fails: under `unisono "
        "run` without being asked, else where UNISONO_DUMP names a directory; copy those of other hosts here"
    )


def _table(found: Diagnosis) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    parts = ["communicator"] if any(story.communicator != WORLD for story in found.stories) else []
    for column in ["rank", *parts, "what it did", "where it was", "waited for", "raised"]:
        table.add_column(column, overflow="fold", no_wrap=column == "rank")
    states = [state for story in found.stories for state in story.states]
    for state in _those_that_matter(states):
        cells = [state.name, *([state.communicator] if parts else []), *_cells(state)]
        table.add_row(*map(Text, cells))
    if len(states) > MOST_ROWS:
        table.add_row(Text(f"and {len(states) - MOST_ROWS} more: --json has them all"))
    return table


def _those_that_matter(states: list[State]) -> list[State]:
    """All, where there are not too many: else those first that left no record, or waited for nobody."""
    if len(states) <= MOST_ROWS:
        return states
    return sorted(states, key=lambda state: (state.failure is not None, state.wait is not None))[:MOST_ROWS]


def _cells(state: State) -> list[str]:
    call = name_call(state.call) if state.call else ""
    if state.failure is None:
        known = [name_end(state.end) if state.end else "", f"came to {call}" if call else ""]
        return ["; ".join(["left no record", *filter(None, known)]), "", "", ""]
    doing = "was in" if state.is_in_call else "completed" if call else "had made no call"
    where = place_of(state.call) if state.is_in_call and state.call else place_of_frame(state.at)
    waited = f"rank {state.wait.awaited}, {format_seconds(state.wait.seconds)}" if state.wait else ""
    where = short(state.failure.where) or where
    return [f"{doing} {call}".strip(), where, waited, _raised(state.rank, state.failure)]


def _raised(rank: int, failure: Failure) -> str:
    error = name_error(failure)
    told = "" if failure.told_by == rank else "heard of "
    return told + (error if len(error) <= LONGEST_ERROR else f"{error[:LONGEST_ERROR]}…")
