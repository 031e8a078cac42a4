"""A simulation in a line or two."""

from __future__ import annotations

from ...interpret.draw.timeline import format_seconds
from ..outcome import Outcome


def describe(outcome: Outcome) -> str:
    """How long, and where the time goes."""
    if not outcome.time:
        return "takes no time"
    names = ("start-up α", "transit β", "reducing γ", "waiting")
    shares = (
        f"{name} {100 * part / outcome.time:.0f} %" for name, part in zip(names, outcome.terms, strict=True) if part > 0
    )
    if outcome.never_ends:
        return f"stalls after {format_seconds(outcome.time)}: {', '.join(shares)}"
    busiest = outcome.bottleneck
    use = f"{busiest.name} is busiest: {100 * outcome.utilisation(busiest):.0f} % of the time"
    return f"takes {format_seconds(outcome.time)}: {', '.join(shares)}; {use}"
