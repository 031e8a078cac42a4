"""Ranks that run their shared-memory programs in any order that the waits allow, on numbers."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from unisono.interpret.lower import Area
from unisono.interpret.share import Kind, SharedProgram, When

GARBAGE = -(10**15)


@dataclass
class Rank:
    """One rank: its program, its memory, and how it uses that memory."""

    program: SharedProgram
    in_place: bool
    stages_input: bool
    stages_output: bool
    windows: int
    turns: int  # places in the stage, which windows use in turn
    memory: dict[tuple[int, int, int], int] = field(default_factory=dict)  # area or stage, window or turn, number
    progress: int = 0
    returned: bool = False


STAGE = 9


class Machine:
    """All ranks; ``run`` interleaves them at random."""

    def __init__(self, ranks: list[Rank], seed: int, reduce: Callable[[Iterable[int]], int] = sum) -> None:
        self.ranks, self.random, self.reduce = ranks, random.Random(seed), reduce

    def run(self) -> None:
        going = {number: self.steps(number) for number in range(len(self.ranks))}
        while going:
            stuck = True
            for number in self.random.sample(sorted(going), len(going)):
                for _ in range(self.random.choice((1, 1, 2, 50))):
                    try:
                        moved = next(going[number])
                    except StopIteration:
                        del going[number]
                        moved = True
                    stuck &= not moved
                    if not moved or number not in going:
                        break
            assert not stuck, "nobody can go on"

    def steps(self, number: int) -> Iterator[bool]:
        rank = self.ranks[number]
        for window in range(rank.windows):
            done = window * rank.program.steps
            for kind, *columns in rank.program.rows.tolist():
                if kind == Kind.WAIT:
                    peer, step, when, _ = columns
                    of = window if self.is_about_lent_memory(rank, when) else window + 1 - rank.turns
                    awaited = of * self.ranks[peer].program.steps + step
                    while self.holds(rank, when) and of >= 0 and self.ranks[peer].progress < awaited:
                        yield False
                elif kind == Kind.SIGNAL:
                    if self.holds(rank, columns[1]):
                        rank.progress = done + columns[0]
                else:
                    self.move(rank, kind, columns, window)
                yield True
        rank.returned = True
        for place in list(rank.memory):
            if place[0] == Area.IN and not rank.in_place:
                rank.memory[place] = GARBAGE

    def is_about_lent_memory(self, rank: Rank, when: int) -> bool:
        return (
            when == When.ALWAYS
            or (when == When.INPUT_LENT and not rank.stages_input)
            or (when == When.OUTPUT_LENT and not rank.stages_output)
        )

    def holds(self, rank: Rank, when: int) -> bool:
        return self.is_about_lent_memory(rank, when) or rank.windows > 1

    def move(self, rank: Rank, kind: int, columns: list[int], window: int) -> None:
        program = rank.program
        if kind == Kind.COMBINE:
            _, first, sources, targets = columns
            references = program.references[first : first + sources + targets].tolist()
            value = self.reduce(self.load(rank, reference, window) for reference in references[:sources])
            fetched = [each for each in references[sources:] if self.is_fetched(rank, each)]
            for reference in references[sources:]:
                is_shelf = program.places[reference][1] == Area.SHELF
                if reference not in fetched and (fetched or not is_shelf):
                    self.store(rank, reference, window, value)
            return
        _, area, block, entry = program.places[columns[0]].tolist()
        own = self.own(rank, area, block, window, program)
        if kind == Kind.PUBLISH and rank.stages_input:
            rank.memory[STAGE, window % rank.turns, entry] = rank.memory[own]
        if kind == Kind.FETCH and rank.stages_output:
            producer, _, _, entry = program.places[columns[2]].tolist()
            rank.memory[own] = self.ranks[producer].memory[STAGE, window % rank.turns, entry]

    def is_fetched(self, rank: Rank, reference: int) -> bool:
        """Does another rank take this from the shelf?"""
        number, area, _, entry = rank.program.places[reference].tolist()
        owner = self.ranks[number]
        return area == Area.OUT and entry < 0 and owner is not rank and owner.stages_output

    def load(self, rank: Rank, reference: int, window: int) -> int:
        owner, place = self.where(rank, reference, window)
        return owner.memory[place]

    def store(self, rank: Rank, reference: int, window: int, value: int) -> None:
        owner, place = self.where(rank, reference, window)
        assert not owner.returned or place[0] == STAGE, "written into memory that its owner uses again"
        owner.memory[place] = value

    def where(self, rank: Rank, reference: int, window: int) -> tuple[Rank, tuple[int, int, int]]:
        number, area, block, entry = rank.program.places[reference].tolist()
        owner = self.ranks[number]
        staged = (
            area in (Area.SLOT, Area.SHELF)
            or (area == Area.IN and owner.stages_input and owner is not rank)
            or (area == Area.OUT and owner.stages_output and entry >= 0)
        )
        if staged:
            return owner, (STAGE, window % rank.turns, entry)
        return owner, self.own(owner, area, block, window, rank.program)

    def own(self, owner: Rank, area: int, block: int, window: int, program: SharedProgram) -> tuple[int, int, int]:
        if owner.in_place:
            area = Area.OUT
        return int(area), window, int(program.blocks[block])
