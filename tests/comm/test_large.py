"""Arrays that 32 bits cannot count. They need gigabytes, so only a soak makes them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.comm.world import World

from unisono.comm.communicator import Communicator

BEYOND_31_BITS, BEYOND_32_BITS = (1 << 31) + 17, (1 << 32) + 17
CHUNK = 31 << 21
PATTERN = np.resize(np.arange(31, dtype=np.int8), CHUNK)  # a shift by 2³¹ or 2³² shows, they are no multiples of 31

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1200)]


@pytest.fixture(autouse=True)
def _enough_memory(soak: bool) -> None:
    if not soak:
        pytest.skip("moves gigabytes: make soak")
    available = int(re.findall(r"MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text())[0]) << 10
    if available < 12 << 30:
        pytest.skip(f"needs 12 GiB of memory, {available >> 30} GiB are available")


def chunks(values: NDArray[np.int8]) -> Iterator[tuple[NDArray[np.int8], NDArray[np.int8]]]:
    """Pieces, and what each holds if every element is its number modulo 31."""
    for start in range(0, values.size, CHUNK):
        piece = values[start : start + CHUNK]
        yield piece, PATTERN[: piece.size]


@pytest.mark.parametrize(
    ("links", "algorithm", "op", "factor"), [("tcp", "ring", "sum", 4), ("direct", "mst", "avg", 2)]
)
def test_two_ranks_add_more_elements_than_31_bits_count(links: str, algorithm: str, op: str, factor: int) -> None:
    def add(comm: Communicator) -> bool:
        x = np.empty(BEYOND_31_BITS, np.int8)
        for piece, numbers in chunks(x):
            np.multiply(numbers, 3 if comm.rank else 1, out=piece)
        comm.allreduce(x, op=op, out=x, algorithm=algorithm)
        return all(np.array_equal(piece, factor * numbers) for piece, numbers in chunks(x))

    with World(2, links, deadline=600, streams=2) as world:
        assert world.run(add) == [True, True]


def test_a_block_is_longer_than_32_bits_count() -> None:
    marks = [0, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32, BEYOND_32_BITS - 1]

    def pass_on(comm: Communicator) -> tuple[list[int], int]:
        x = np.zeros(BEYOND_32_BITS, np.int8)  # on the sender, only the pages with marks exist
        if comm.rank == 0:
            x[marks] = range(1, len(marks) + 1)
            comm.send(x, 1)
        else:
            comm.recv(0, out=x)
        return x[marks].tolist(), sum(int(np.count_nonzero(x[i : i + CHUNK])) for i in range(0, x.size, CHUNK))

    with World(2, "tcp", deadline=600, streams=2) as world:
        assert world.run(pass_on) == [([1, 2, 3, 4, 5, 6], 6)] * 2
