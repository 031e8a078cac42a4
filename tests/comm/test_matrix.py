"""Every algorithm × element type × operator × number of ranks × kind of links, against NumPy.

In the usual run every two of these meet at least once on each kind of links; a soak runs all of them.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Iterable
from functools import cache
from itertools import combinations, product
from typing import Any, NamedTuple

import pytest
from tests.comm.oracle import CUT, DTYPES, OPS, assert_right, call, expected, inputs, is_defined
from tests.comm.world import LINKS, World

from unisono.comm.communicator import Communicator
from unisono.schedule.catalog import algorithms

RANKS = (1, 2, 3, 4, 5, 8)
CATALOGUE = tuple(algorithm for algorithm in algorithms() if algorithm.name != "dedicated_servers")
LENGTHS = (0, 1, 3, 64, 701)


class Case(NamedTuple):
    algorithm: tuple[str, str]  # collective, name
    dtype: str
    op: Any
    p: int


@cache
def all_cases() -> list[Case]:
    cases = []
    for algorithm, dtype, p in product(CATALOGUE, DTYPES, RANKS):
        ops = [op for op in OPS if is_defined(op, dtype)] if algorithm.collective.reduces else ["sum"]
        cases += [Case((algorithm.collective.name, algorithm.name), dtype, op, p) for op in ops]
    return cases


def every_pair_once(cases: list[Case], rng: random.Random) -> Iterable[Case]:
    """Few cases in which all pairs of choices occur: first those with many new pairs, then the rest."""
    seen: set[object] = set()
    shuffled = rng.sample(cases, len(cases))
    for least in (6, 3, 1):
        for case in shuffled:
            new = set(combinations(enumerate(case), 2)) - seen
            if len(new) >= least:
                seen |= new
                yield case


def check(world: World, case: Case, rng: random.Random) -> None:
    (collective, name), dtype, op, p = case
    rows, root, seed = rng.choice(LENGTHS), rng.randrange(p), rng.getrandbits(32)
    xs = inputs(p, (rows * p if collective in CUT else rows,), dtype, seed)

    def one_rank(comm: Communicator) -> Any:
        return call(comm, collective, xs[comm.rank].copy(), root, op, algorithm=name)

    what = f"{case}, {rows} rows, root {root}, inputs of seed {seed}"
    right = expected(collective, xs, root, op)
    for result, wanted in zip(world.run(one_rank), right, strict=True):
        assert_right(collective, result, wanted, xs, op, what)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("p", RANKS)
@pytest.mark.parametrize("links", LINKS)
def test_every_case_gives_what_numpy_gives(links: str, p: int, soak: bool) -> None:
    seed = secrets.randbits(32) if soak else 1
    print(f"seed {seed}")
    rng = random.Random(f"{seed} {links}")
    cases = [case for case in (all_cases() if soak else every_pair_once(all_cases(), rng)) if case.p == p]
    with World(p, links) as world:
        for case in cases:
            check(world, case, rng)
    assert {case.algorithm for case in cases} == {case.algorithm for case in all_cases()}
