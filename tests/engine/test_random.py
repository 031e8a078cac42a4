"""Random programs leave behind on every engine what they leave behind on the serial one."""

import secrets
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

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
    seeds = range(first, first + (SOAK if soak else SAMPLE) // SHARDS)
    print(f"seeds {seeds[0]} to {seeds[-1]}", flush=True)
    for seed in seeds:
        try:
            compare(random_program(seed))
        except BaseException:
            print(f"seed {seed}")
            raise


INNER_WAITS = Path(__file__).with_name("inner_waits.py")
INNER_SAMPLE, INNER_SOAK = 150, 10_000


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["Engine", "SerialEngine"])
def test_waits_inside_of_random_operations_end_or_are_refused(kind: str, soak: bool) -> None:
    first, count = (secrets.randbits(32), INNER_SOAK) if soak else (1, INNER_SAMPLE)
    print(f"seeds {first} to {first + count - 1}", flush=True)
    done = subprocess.run(
        [sys.executable, INNER_WAITS, kind, str(first), str(count)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=3600 if soak else 240,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-20_000:]


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
