"""The ranks' side of regret.py: every algorithm at every size, in turns, and then in loops."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
from regret_budget import Budget
from regret_guidelines import guidelines

import unisono
from unisono.comm.calibrate import calibration_cells, prices_from
from unisono.comm.stopwatch import Arrays, Cell, call_of, slowest, time_in_turns
from unisono.interpret.share import share_all
from unisono.schedule.spelling import schedule_named
from unisono.tune.defaults import COSTS
from unisono.tune.model import Model
from unisono.tune.select import Selector
from unisono.tune.terms import kind_of, work_of

KB, MB = 1 << 10, 1 << 20
LOOPS, TURNS_OF_SIZES, GUIDED_PART = 0.3, 0.55, 0.15
"""Parts of the limit of a job."""
LARGE = {8 * MB: 2.0, 64 * MB: 5.0}
"""How many times as long as a small size these have."""
HOPELESS, FAR_FROM_BEST = 2.5, 3.0
SECONDS, BRIEF = 0.004, 0.0004
TURNS = 8
"""In a round: so short that all algorithms meet the machine in the same mood."""
FEW_BYTES, BUCKET = 4 * KB, 256 * KB
SLOW_CALL = 0.003
"""Seconds: what is predicted to take longer is measured call by call, as all beyond 1 MB."""


def has_buckets(comm: unisono.Communicator, nbytes: int) -> bool:
    """Do calls of that size take tokens that others could have?"""
    return len(set(comm.hosts)) > 1 and nbytes >= FEW_BYTES


def emptying(comm: unisono.Communicator) -> Callable[[], Any]:
    """Takes all tokens from the buckets of a lab."""
    data = np.zeros(BUCKET // 4, np.float32)
    return lambda: comm.allreduce(data, out=data, algorithm="ring")


class Large:
    """The algorithms of a large vector, one call of each in a turn."""

    def __init__(self, comm: unisono.Communicator, cells: list[Cell], predicted: dict[str, float]) -> None:
        self.comm, self.left_out = comm, [str(cell.algorithm) for cell in cells]
        arrays = Arrays()
        self.calls = {cell: call_of(comm, cell, arrays) for cell in cells if self._may_win(cell, predicted)}
        for cell in self.calls:
            call_of(comm, cell._replace(nbytes=8), arrays)()  # what a first call prepares depends on no size
        tried = {cell: float(slowest(comm, call, 1)[0]) for cell, call in self.calls.items()}
        limit = FAR_FROM_BEST * min(tried.values())
        self.cells = [cell for cell, taken in tried.items() if taken <= limit]
        self.left_out = [name for name in self.left_out if name not in {cell.algorithm for cell in self.cells}]

    def _may_win(self, cell: Cell, predicted: dict[str, float]) -> bool:
        """Unless the model and the bytes of the busiest wire both say that it cannot."""
        place, p = self.comm._runner.selector.place, self.comm.size
        bytes_of = {name: work_of("allreduce", name, p, cell.nbytes, place).wire_at_once for name in predicted}
        name = str(cell.algorithm)
        return predicted[name] <= FAR_FROM_BEST * min(predicted.values()) or bytes_of[name] <= FAR_FROM_BEST * min(
            bytes_of.values()
        )

    def turn(self, number: int) -> Any:
        found = np.zeros((1, len(self.cells)))
        for cell in Random(number).sample(self.cells, len(self.cells)):
            found[0, self.cells.index(cell)] = slowest(self.comm, self.calls[cell], 1)[0]
        return found


def say(comm: unisono.Communicator, text: str) -> None:
    if comm.rank == 0:
        print(text, flush=True)


def measure(sizes: list[int], rounds: int, limit: float) -> None:
    """One rank; the first one prints what it found."""
    with unisono.init() as comm:
        selector = comm._runner.selector
        chosen = {nbytes: selector.choose("allreduce", comm.size, nbytes) for nbytes in sizes}
        predictions = {n: dict(selector.predictions("allreduce", comm.size, n, chosen[n])) for n in sizes}
        shared = selector.place.shares_memory
        first = {n: first_of_their_kind(list(predictions[n]), comm.size, shared) for n in sizes}
        cells = {n: [Cell("allreduce", text, n) for text in dict.fromkeys(first[n].values())] for n in sizes}
        slow = [n for n in sizes if n > MB or min(predictions[n].values()) > SLOW_CALL]
        large = {n: Large(comm, cells[n], predictions[n]) for n in slow}
        cells |= {n: of_size.cells for n, of_size in large.items()}
        found: dict[int, list[Any]] = {n: [] for n in sizes}
        for n in sizes:
            part = LARGE.get(n, 1.0) / sum(LARGE.get(m, 1.0) for m in sizes)
            budget = Budget(comm, TURNS_OF_SIZES * limit * part)
            for number in budget.rounds(2 * rounds if n in large else rounds, fewest=2 if n in large else 1):
                say(comm, f"{n} B, round {number + 1}")
                if n in large:
                    found[n].append(large[n].turn(number))
                else:
                    found[n].append(
                        time_in_turns(
                            comm,
                            cells[n],
                            rounds=TURNS,
                            seconds=SECONDS if has_buckets(comm, n) else BRIEF,
                            hopeless=HOPELESS,
                            before=emptying(comm) if has_buckets(comm, n) else lambda: None,
                        )
                    )
        small = [cell for n in sizes if n not in large for cell in cells[n]]
        known = calibration_cells(kind_of(selector.place))
        loops = []
        for number in Budget(comm, LOOPS * limit).rounds(rounds):
            say(comm, f"loops, round {number + 1}")
            loops.append(time_in_turns(comm, [*small, *known], rounds=1, seconds=SECONDS, hopeless=HOPELESS))
        medians = np.nanmedian(np.concatenate(loops), axis=0)
        steady = dict(zip([*small], medians, strict=False))
        for n, of_size in large.items():
            steady |= dict(zip(of_size.cells, np.median(np.concatenate(found[n]), axis=0), strict=True))
        known_times = medians[len(small) :]
        timed = [i for i, seconds in enumerate(known_times) if not np.isnan(seconds)]
        prices = prices_from([known[i] for i in timed], known_times[timed], comm.size, selector.place)
        fitted = Model({**COSTS, kind_of(selector.place): prices})
        say(comm, "guidelines")
        guided = guidelines(comm, rounds, GUIDED_PART * limit)
        all_cells = [cell for n in sizes for cell in cells[n]]
        if comm.rank == 0:
            facts = {
                "p": comm.size,
                "hosts": len(set(comm.hosts)),
                "origin": selector.model.origin,
                "chosen": chosen,
                "chosen_now": {n: Selector(fitted, selector.place).choose("allreduce", comm.size, n) for n in sizes},
                "cells": [[cell.algorithm, cell.nbytes] for cell in all_cells],
                "first": first,
                "left_out": {n: of_size.left_out for n, of_size in large.items()},
                "predicted": [predictions[cell.nbytes][str(cell.algorithm)] for cell in all_cells],
                "fitted": [
                    fitted.seconds("allreduce", str(cell.algorithm), comm.size, cell.nbytes, selector.place)
                    for cell in all_cells
                ],
                "times": [taken for n in sizes for taken in np.concatenate(found[n]).T.tolist()],
                "steady": [float(steady[cell]) for cell in all_cells],
                "known": [[*known[i], float(known_times[i])] for i in timed],
                "guided": guided,
                "rounds": {"loops": len(loops)} | {str(n): len(found[n]) for n in sizes},
            }
            print("FOUND " + json.dumps(facts), flush=True)


def check_guidelines(rounds: int, limit: float) -> None:
    """One rank; the first one prints what it found."""
    with unisono.init() as comm:
        guided = guidelines(comm, rounds, limit)
        if comm.rank == 0:
            print("FOUND " + json.dumps({"p": comm.size, "guided": guided}), flush=True)


def first_of_their_kind(texts: list[str], p: int, shared: bool) -> dict[str, str]:
    """Algorithms that make the ranks do the very same, as all do between two, are one."""
    kinds: dict[Any, str] = {}
    found = {}
    for text in texts:
        schedule = schedule_named("allreduce", text, p)
        programs = [(x.blocks, x.places, x.rows, x.references) for x in share_all(schedule)] if shared else None
        parts = programs or [(*schedule.table.puts, *schedule.table.gets)]
        kind = tuple(np.asarray(part).tobytes() for program in parts for part in program)
        found[text] = kinds.setdefault(kind, text)
    return found
