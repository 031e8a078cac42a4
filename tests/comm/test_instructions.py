"""What runs is the program that the schedule was lowered to: no algorithm has a path of its own."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import unisono
from unisono.interpret.lower import lower
from unisono.interpret.register import register
from unisono.interpret.share import share
from unisono.schedule.arithmetic import in_rank_order, others
from unisono.schedule.ir import ALL, EVERY_BLOCK, INPUT, Get, Put, Span
from unisono.schedule.pattern import all_alike

NAMES = ["exchange", "my_exchange", "direct", "my_direct", "ring", "recursive_doubling"]


def _register_copies() -> None:
    """Of `exchange` and `direct`, as a user would write them; in a process of its own."""

    @register("allreduce", name="my_exchange", blocks=lambda p: 1, alike=all_alike)
    def my_exchange(p: int, r: int) -> Iterator[tuple]:
        """Everybody sends everything to all."""
        peer = others(p, r)
        yield Put(peer, Span(0, EVERY_BLOCK, INPUT)), Get(peer, ALL, in_rank_order(peer, r))

    @register("allreduce", name="my_direct", alike=all_alike)
    def my_direct(p: int, r: int) -> Iterator[tuple]:
        """Everybody adds up one block, and sends it to all."""
        peer = others(p, r)
        yield Put(peer, Span(peer)), Get(peer, Span(r), in_rank_order(peer, r))
        yield Put(peer, Span(r)), Get(peer, Span(peer))


def _instructions(links: str) -> list[tuple[int, list[int]]]:
    """Of each algorithm's program, and of calls that are known."""
    _register_copies()
    with unisono.init(links=links) as comm:
        x = np.zeros(600)
        found = []
        for name in NAMES:
            comm.allreduce(x, out=x, algorithm=name)
            schedule = unisono.find("allreduce", name).schedule(comm.size)
            is_shared = comm.stats()["sharing"] != "none"
            program = (
                share(schedule, comm.rank).rows if is_shared else lower(schedule, comm.rank, in_place=True).instructions
            )
            counts = []
            for _ in range(3):
                before = comm.stats()["instructions"]
                comm.allreduce(x, out=x, algorithm=name)
                counts.append(comm.stats()["instructions"] - before)
            found.append((len(program), counts))
        return found


@pytest.mark.parametrize("links", ["tcp", "auto"])
@pytest.mark.parametrize("p", [2, 3])
def test_a_known_call_runs_every_instruction_of_its_program_and_no_other(links: str, p: int) -> None:
    for found in unisono.launch(_instructions, p, links, timeout=60):
        assert [counts for _, counts in found] == [[length] * 3 for length, _ in found]
        assert found[0] == found[1], "a copy is the same program"
        assert found[2] == found[3], "a copy is the same program"
