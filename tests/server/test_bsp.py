"""Under bsp, workers together compute what one process computes."""

from pathlib import Path

import numpy as np
import pytest
from tests.server.bsp_worker import CLOCKS, ROWS, SHAPE, UPDATES, WIDTH, gradient, rows
from tests.server.jobs import succeed
from tests.server.test_tables import Oracle

F = np.float32


def serial(update: str, workers: int, clock: int) -> np.ndarray:
    """One worker's pushes of a clock are summed up, then those of all, in the order of their ranks."""
    total = None
    for rank in range(workers):
        own = gradient(rank, clock, 0)
        own += gradient(rank, clock, 1)
        total = own if total is None else total + own
    assert total is not None
    return total


@pytest.mark.parametrize(("workers", "servers", "threads"), [(3, 2, 2), (2, 1, 1)])
def test_bsp_is_bit_equal_to_one_process(tmp_path: Path, workers: int, servers: int, threads: int) -> None:
    succeed("bsp_worker.py", tmp_path, workers=workers, servers=servers, threads=threads)
    results = [np.load(tmp_path / f"{rank}.npz") for rank in range(workers)]
    oracles = {update: oracle_of(update, SHAPE) for update in UPDATES}
    for clock in range(CLOCKS):
        for update, oracle in oracles.items():
            oracle.push(serial(update, workers, clock))
            for result in results:
                assert result[f"{clock} {update}"].tobytes() == oracle.w.tobytes(), (clock, update)


def test_sparse_rows_under_bsp_are_those_of_one_process(tmp_path: Path) -> None:
    succeed("bsp_worker.py", tmp_path, workers=2, servers=2)
    result = np.load(tmp_path / "1.npz")
    oracles = {update: [oracle_of(update, (WIDTH,)) for _ in range(ROWS)] for update in UPDATES}
    for clock in range(CLOCKS):
        total: dict[int, np.ndarray] = {}
        for rank in range(2):
            for key, row in zip(*rows(rank, clock), strict=True):
                total[key] = row if key not in total else total[key] + row
        for update, of_rows in oracles.items():
            for key, row in total.items():
                of_rows[key].push(row)
            expected = np.stack([oracle.w for oracle in of_rows])
            assert result[f"{clock} s{update}"].tobytes() == expected.tobytes(), (clock, update)


def oracle_of(update: str, shape: tuple[int, ...]) -> Oracle:
    return Adam(shape) if update == "adam" else Oracle(update, shape)


class Adam(Oracle):
    """With the rate of these tests."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__("adam", shape)

    def push(self, g: np.ndarray) -> None:
        self.step += 1
        b1, b2 = F(0.9), F(0.999)
        self.m = b1 * self.m + (1 - b1) * g
        self.v = b2 * self.v + (1 - b2) * (g * g)
        c1, c2 = F(1 - 0.9**self.step), F(1 - 0.999**self.step)
        self.w -= F(0.01) * (self.m / c1) / (np.sqrt(self.v / c2) + F(1e-8))
