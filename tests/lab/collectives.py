"""One rank: a sample of algorithms, element types and operators in which every two of them meet, against NumPy."""

import random
import sys
from typing import Any

from tests.comm.oracle import CUT, assert_right, call, expected, inputs
from tests.comm.test_matrix import LENGTHS, Case, all_cases, every_pair_once

import unisono
from unisono.comm.communicator import Communicator

LARGE = 20_000


def check(comm: Communicator, case: Case, algorithm: str | None, rows: int) -> None:
    (collective, _), dtype, op, p = case
    root = (rows + 1) % p
    xs = inputs(p, (rows * p if collective in CUT else rows,), dtype)
    result: Any = call(comm, collective, xs[comm.rank].copy(), root, op, algorithm=algorithm)
    right = expected(collective, xs, root, op)[comm.rank]
    assert_right(collective, result, right, xs, op, f"{case}, {algorithm}, {rows} rows, root {root}")


def main() -> None:
    seed = int(sys.argv[1])
    rng = random.Random(seed)  # the same on all ranks
    with unisono.init(deadline=60.0) as comm:
        cases = [case for case in every_pair_once(all_cases(), rng) if case.p == comm.size]
        for case in cases:
            check(comm, case, case.algorithm[1], rng.choice(LENGTHS))
        for case in {case.algorithm[0]: case for case in cases}.values():
            check(comm, case, None, LARGE)
    print(f"all right, {len(cases)} cases, seed {seed}")


if __name__ == "__main__":
    main()
