"""Random programs leave behind on every engine what they leave behind on the serial one."""

import secrets
from itertools import pairwise

import pytest
from tests.engine.programs import Elsewhere, Program, Run, check_history, random_program

from unisono.engine import Engine, SerialEngine

SAMPLE, SOAK = 400, 5000
SHARDS = 2


def run(program: Program, engine: Engine | SerialEngine) -> Run:
    elsewhere = Elsewhere()
    try:
        return Run(program, engine, elsewhere).go()
    finally:
        elsewhere.close()


def compare(program: Program) -> None:
    expected = run(program, SerialEngine())
    engine = Engine(program.threads)
    found = run(program, engine)
    engine.close()
    assert check_history(expected) == []
    assert check_history(found) == []
    assert found.cells.tolist() == expected.cells.tolist()
    assert found.outcomes == expected.outcomes
    assert found.inner == expected.inner
    assert found.history.keys() == expected.history.keys(), "the same ones ran"


@pytest.mark.soak
@pytest.mark.parametrize("shard", range(SHARDS))
def test_random_programs_equal_serial_execution(shard: int, soak: bool) -> None:
    first = secrets.randbits(32) if soak else 1 + shard * SAMPLE
    for seed in range(first, first + (SOAK if soak else SAMPLE) // SHARDS):
        try:
            compare(random_program(seed))
        except BaseException:
            print(f"seed {seed}")
            raise


def test_the_history_checker_sees_an_overlap_and_a_wrong_order() -> None:
    program = random_program(3)
    good = run(program, SerialEngine())
    steps = [step for step in program.steps if step.number in good.history]
    first, second = next(
        (a, b)
        for a, b in pairwise(steps)
        if set(a.modes) & set(b.modes)
        and "mutate" in [*a.modes.values()]
        and any(a.modes[v] == "mutate" for v in set(a.modes) & set(b.modes))
    )
    begin, end = good.history[second.number]
    good.history[second.number] = (good.history[first.number][1] - 1, end)
    assert check_history(good) != []
    good.history[second.number] = (begin, end)
    assert check_history(good) == []
    good.history[first.number], good.history[second.number] = good.history[second.number], good.history[first.number]
    assert check_history(good) != []
