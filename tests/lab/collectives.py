"""One rank: every collective with the algorithm that is chosen for it, and with each that can be."""

import numpy as np
from tests.comm.oracle import call, expected, inputs

import unisono
from unisono.comm.communicator import Communicator
from unisono.schedule.catalog import algorithms

CATALOGUE = [a for a in algorithms() if a.name != "dedicated_servers"]


def check(comm: Communicator, collective: str, algorithm: str | None, length: int) -> None:
    p, root = comm.size, (length + 1) % comm.size
    xs = [np.rint(64 * x) for x in inputs(p, (length * p,), "float64")]
    result = call(comm, collective, xs[comm.rank], root, algorithm=algorithm)
    np.testing.assert_array_equal(
        result, expected(collective, xs, root)[comm.rank], f"{collective} {algorithm} of {length * p}"
    )


def main() -> None:
    with unisono.init(deadline=60.0) as comm:
        for collective in dict.fromkeys(algorithm.collective.name for algorithm in CATALOGUE):
            for length in (0, 7, 20_000):
                check(comm, collective, None, length)
        for algorithm in CATALOGUE:
            check(comm, algorithm.collective.name, algorithm.name, 501)
    print("all right")


if __name__ == "__main__":
    main()
