"""Guidelines: what no call should take longer than, and how much longer it takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from time import perf_counter
from typing import Any

import numpy as np
from regret_budget import Budget

import unisono
from unisono.comm.stopwatch import Arrays, Cell, call_of
from unisono.tune.guidelines import GUIDELINES

KB, MB = 1 << 10, 1 << 20
NOISE, SECOND_LOOK = 1.15, 31
GUIDED = {KB: 60, 64 * KB: 20, MB: 4}  # bytes: calls in a round


def guidelines(comm: unisono.Communicator, rounds: int, seconds: float) -> list[float]:
    """For each guideline and size, the median over turns of what the call takes over what its parts take in the next
    loop. Of many medians some are high by chance: what seems to be broken is measured anew, with more turns, and only
    that counts."""
    arrays = Arrays()
    ratios = []
    for whole, parts in GUIDELINES:
        for nbytes, count in GUIDED.items():
            one = call_of(comm, Cell(whole, None, nbytes), arrays)
            others = [call_of(comm, Cell(part, None, nbytes), arrays) for part in parts]
            budget = Budget(comm, seconds / (len(GUIDELINES) * len(GUIDED)))
            first = in_pairs(comm, one, others, count, budget.rounds(3 * rounds + 1, fewest=4))
            ratios.append(first if first <= NOISE else in_pairs(comm, one, others, count, range(SECOND_LOOK)))
    return ratios


def in_pairs(
    comm: unisono.Communicator,
    one: Callable[[], Any],
    others: list[Callable[[], Any]],
    count: int,
    turns: Iterable[int],
) -> float:
    """How much longer one call takes than others: the median of loops of both, one after the other, in either order."""
    ratios = []
    for turn in turns:
        calls = ([one], others) if turn % 2 else (others, [one])
        first, second = (loop(comm, some, count) for some in calls)
        ratios.append(first / second if turn % 2 else second / first)
    return float(comm.broadcast(np.array([np.median(ratios[1:])]))[0])


def loop(comm: unisono.Communicator, calls: list[Callable[[], Any]], count: int) -> float:
    """Seconds from one barrier to the next: ranks that share cores do not work at the same time."""
    comm.barrier()
    begun = perf_counter()
    for _ in range(count):
        for call in calls:
            call()
    comm.barrier()
    return float(comm.allreduce(np.array([perf_counter() - begun]), op="max")[0])


def broken_guidelines(found: dict[str, Any]) -> list[str]:
    cells = [(whole, parts, nbytes) for whole, parts in GUIDELINES for nbytes in GUIDED]
    return [
        f"{whole} of {nbytes} B takes {ratio:.2f} times {' + '.join(parts)}"
        for (whole, parts, nbytes), ratio in zip(cells, found["guided"], strict=True)
        if ratio > NOISE
    ]


def show_guidelines(lines: list[dict[str, Any]]) -> bool:
    """Do all of them hold?"""
    for found in lines:
        broken = broken_guidelines(found)
        held = len(found["guided"]) - len(broken)
        print(f"{found['kind']:6} p = {found['p']:<3} {held} of {len(found['guided'])} guidelines hold within {NOISE}")
        for line in broken:
            print(f"{'':12}{line}")
    return not any(map(broken_guidelines, lines))
