"""``unisono algorithms``: the catalogue."""

from __future__ import annotations

import json
import re
import sys
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..schedule import catalog


def algorithms(
    collective: Annotated[str | None, typer.Argument(help="Only the algorithms of this collective.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List every algorithm, what it does, and where it is described."""
    rows = catalog.algorithms(collective)
    if as_json:
        fields = [
            {
                "collective": row.collective.name,
                "name": row.name,
                "summary": row.summary,
                "parameters": sorted(row.parameters),
                "paper": row.paper,
            }
            for row in rows
        ]
        print(json.dumps(fields, indent=2, ensure_ascii=False))
        return
    console = Console(width=None if sys.stdout.isatty() else 160)
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for name in ("collective", "algorithm", "what it does", "parameters", "paper"):
        table.add_column(
            name, no_wrap=name in ("collective", "algorithm"), style="cyan" if name == "algorithm" else None
        )
    last = ""
    for row in rows:
        first = row.collective.name if row.collective.name != last else ""
        table.add_row(first, row.name, Text(row.summary), ", ".join(row.parameters), Text(_short(row.paper)))
        last = row.collective.name
    console.print(table)
    papers = sorted({row.paper for row in rows if row.paper})
    console.print("\n" + "\n".join(f"{_short(paper)}: {paper}" for paper in papers), style="dim", highlight=False)


def _short(paper: str) -> str:
    """The first author and the year."""
    years = re.findall(r"\b(?:19|20)\d\d\b", paper)
    return f"{re.split('[ ,&:]', paper, maxsplit=1)[0]} {years[-1]}" if years else paper
