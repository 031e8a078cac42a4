"""Calls, places and ranks as a person would name them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from ..launcher.rank import describe_end
from ..trace.dump import Failure
from ..trace.ends import End
from ..trace.record import Record
from ..trace.stacks import Frame
from .units import format_bytes

MOST_NAMED = 8


def name_call(call: Record) -> str:
    """call 812, allreduce ring of 4 MiB float32"""
    what = f"{call.kind} of {format_bytes(call.bytes)}{f' {call.kind.dtype}' if call.kind.dtype else ''}"
    if call.kind.root is not None:
        what += f", root {call.kind.root}"
    return what if call.sequence is None else f"call {call.sequence}, {what}"


def place_of(call: Record) -> str:
    return short(call.where)


def place_of_frame(frame: Frame | None) -> str:
    return f"{short(frame.place)} in {frame.function}" if frame else ""


def ranks(numbers: Sequence[int]) -> str:
    """rank 2; ranks 0, 1 and 3; ranks 0-7"""
    if len(numbers) == 1:
        return f"rank {numbers[0]}"
    parts = _runs(sorted(numbers))
    shown = parts if len(parts) <= MOST_NAMED else [*parts[:MOST_NAMED], "more"]
    return "ranks " + " and ".join([part for part in (", ".join(shown[:-1]), shown[-1]) if part])


def first_line(failure: Failure) -> str:
    """Without its full stop, as part of a sentence."""
    return next(iter(failure.message.splitlines()), "").removesuffix(".")


def name_error(failure: Failure) -> str:
    text = first_line(failure)
    return f"{failure.error}: {text}" if text else failure.error


def name_end(end: End) -> str:
    """was killed by SIGKILL"""
    if end.by_launcher:
        return "was ended by the launcher"
    return describe_end(end.code) if end.code else "ended with exit code 0"


def short(where: str) -> str:
    """The file without its directories; they are in the JSON."""
    return PurePath(where).name


def comma(text: str) -> str:
    return f", {text}" if text else ""


def _runs(numbers: Sequence[int]) -> list[str]:
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    pairs = ([str(run[0]), str(run[-1])] if len(run) == 2 else [_span(run)] for run in runs)
    return [part for pair in pairs for part in pair]


def _span(run: Sequence[int]) -> str:
    return str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}"
