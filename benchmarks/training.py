"""Data-parallel training against torch's DDP and FSDP2 on gloo.

python benchmarks/training.py [ROUNDS] [--only here,gradients,lab,fsdp,overlap]

Contestants take a step each, in turns; a figure is the median, with quartiles, over the rounds of our time over gloo's
in the same round, of the slowest rank. `here` are 2 and 4 ranks on this machine, each with one thread for computing;
`gradients` are the gradients alone. The other parts need root and iproute2, for hosts of a lab at 1 Gbit/s: `lab` and
`fsdp` have 4, `overlap` has 2. There, computing a layer is a sleep: a stand-in for an accelerator, which does not use
the CPU that the network needs; beside it, real matrix products, without a bar. Needs torch 2.13. Run it on a quiet
machine. It ends with 1 if a bar is missed, or what a figure presupposes does not hold: that communication is a fifth of
gloo's step here and half of it in the lab, and that computing takes as long as communication where it has to hide it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from unisono.bench.ratios import spread
from unisono.errors import ConfigError
from unisono.lab import Lab

ROUNDS = 9
RANK = Path(__file__).with_name("training_rank.py")
DDP, LIST, LAB_DDP, FSDP, EXPOSED = 0.85, 0.5, 1.05, 0.75, 0.25
ENOUGH_COMMUNICATION, BOUND_BY_COMMUNICATION = 0.2, 0.5
SECONDS = 240


def on_this_machine(ranks: int, part: str, rounds: int) -> Any:
    command = [Path(sys.executable).with_name("unisono"), "run", "-n", ranks, RANK, part, rounds]
    return found_by(subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=SECONDS))


def in_lab(hosts: int, part: str, rounds: int) -> Any:
    with Lab(hosts=hosts, rate="1gbit") as lab:
        return found_by(lab.run(RANK, part, rounds, ranks=hosts, timeout=SECONDS))


def found_by(done: subprocess.CompletedProcess[str]) -> Any:
    """What rank 0 says; the reports are shown."""
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)
    print(done.stderr, end="", file=sys.stderr)
    for line in done.stdout.splitlines():
        if "REPORT " in line:
            print(*("     " + each for each in json.loads(line.split("REPORT ", 1)[1]).splitlines()), sep="\n")
    return json.loads(next(line for line in done.stdout.splitlines() if "FOUND " in line).split("FOUND ", 1)[1])


def judge(what: str, values: list[float], limit: float | None = None) -> bool:
    """Print one figure, and whether it is within its bar."""
    lower, median, upper = spread(values)
    held = limit is None or median <= limit
    mark = "    " if limit is None else "ok  " if held else "MISS"
    bar = "no bar" if limit is None else f"bar ≤ {limit:g}"
    print(f"{mark} {what}: {median:.3f} ({lower:.3f} – {upper:.3f}), {bar}", flush=True)
    return held


def presuppose(what: str, value: float, least: float) -> bool:
    """Print what a figure rests on, and whether it holds."""
    print(f"{'ok  ' if value >= least else 'MISS'} {what}: {value:.2f}, presupposed ≥ {least:g}", flush=True)
    return value >= least


def communication_part(times: dict[str, list[float]]) -> float:
    return 1 - spread(over(times, "without communication", "DDP on gloo")).median


def over(times: dict[str, list[float]], ours: str, theirs: str) -> list[float]:
    return [a / b for a, b in zip(times[ours], times[theirs], strict=True)]


def show(times: dict[str, list[float]]) -> None:
    print("     " + ", ".join(f"{name} {spread(each).median * 1e3:.1f} ms" for name, each in times.items()))


def here(rounds: int) -> list[bool]:
    held = []
    for ranks in (2, 4):
        for model in ("transformer", "vgg"):
            times = on_this_machine(ranks, model, rounds)
            show(times)
            title = f"{model}-like, {ranks} ranks"
            part = communication_part(times)
            held.append(presuppose(f"{title}: communication ÷ gloo's step", part, ENOUGH_COMMUNICATION))
            held.append(judge(f"{title}: DDP on unisono ÷ on gloo", over(times, "DDP on unisono", "DDP on gloo"), DDP))
            held.append(judge(f"{title}: DataParallel ÷ DDP on gloo", over(times, "DataParallel", "DDP on gloo"), DDP))
    return held


def gradients(rounds: int) -> list[bool]:
    held = []
    for ranks in (2, 4):
        times = on_this_machine(ranks, "gradients", rounds)
        show(times)
        for ours in ("unisono", "GradientSync"):
            held.append(judge(f"gradient list, {ranks} ranks: {ours} ÷ gloo", over(times, ours, "gloo"), LIST))
    return held


def lab(rounds: int) -> list[bool]:
    times = in_lab(4, "vgg", rounds)
    show(times)
    title = "vgg-like, 4 hosts, 1 Gbit/s"
    judge(f"{title}: DDP on unisono ÷ on gloo", over(times, "DDP on unisono", "DDP on gloo"))
    return [
        presuppose(f"{title}: communication ÷ gloo's step", communication_part(times), BOUND_BY_COMMUNICATION),
        judge(f"{title}: DataParallel ÷ DDP on gloo", over(times, "DataParallel", "DDP on gloo"), LAB_DDP),
    ]


def fsdp(rounds: int) -> list[bool]:
    times = in_lab(4, "fsdp", rounds)
    show(times)
    ratios = over(times, "FSDP2 on unisono", "FSDP2 on gloo")
    return [judge("FSDP2, 4 hosts, 1 Gbit/s: on unisono ÷ on gloo", ratios, FSDP)]


def overlap(rounds: int) -> list[bool]:
    held = []
    for compute, times in in_lab(2, "overlap", rounds).items():
        show(times)
        ratios = over(times, "exposed", "communication")
        title = f"2 hosts, 1 Gbit/s, compute by {compute}"
        if limit := EXPOSED if compute == "sleep" else None:
            hides = spread(over(times, "compute", "communication")).median
            held.append(presuppose(f"{title}: compute ÷ communication", hides, 1.0))
        held.append(judge(f"{title}: exposed ÷ communication", ratios, limit))
    return held


PARTS: dict[str, Callable[[int], list[bool]]] = {
    "here": here, "gradients": gradients, "lab": lab, "fsdp": fsdp, "overlap": overlap,
}  # fmt: skip


def main(arguments: list[str]) -> bool:
    only = arguments[arguments.index("--only") + 1].split(",") if "--only" in arguments else list(PARTS)
    rounds = int(arguments[0]) if arguments and arguments[0].isdigit() else ROUNDS
    if unknown := set(only) - set(PARTS):
        raise SystemExit(f"there is no part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    try:
        held = [each for name in only for each in PARTS[name](rounds)]
    except ConfigError as error:  # says what is missing
        raise SystemExit(f"benchmarks/training.py: {error}") from None
    return all(held)


if __name__ == "__main__":
    sys.exit(0 if main(sys.argv[1:]) else 1)
