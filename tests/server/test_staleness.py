"""The bound of staleness holds for every read, whatever the delays."""

import json
from pathlib import Path

import pytest
from tests.server.jobs import succeed

CASES = [("ssp", 0), ("ssp", 1), ("ssp", 3), ("essp", 2)]


@pytest.mark.soak
@pytest.mark.parametrize(("kind", "bound"), CASES)
@pytest.mark.parametrize("breaks", [False, True], ids=["", "breaks"])
def test_no_read_is_staler_than_the_bound(tmp_path: Path, kind: str, bound: int, breaks: bool, soak: bool) -> None:
    workers = 3
    for seed in range(50 if soak else 1):
        directory = tmp_path / str(seed)
        directory.mkdir()
        arguments = directory, kind, bound, seed, 40, int(breaks)
        options = {"threads": 1 + seed % 2, "UNISONO_SERVER_GRACE": "10"}  # to come back, whoever stands still
        succeed("stale_worker.py", *arguments, workers=workers, servers=2, **options)
        served_here = 0
        for rank in range(workers):
            told = json.loads((directory / f"{rank}.json").read_text())
            for clock, low, high, rows, info in told["reads"]:
                check(rank, clock, low, high, bound)
                if rows:
                    check(rank, clock, rows, rows, bound)
                if info:
                    staleness, missing, extra = info
                    assert staleness <= bound
                    assert missing + extra <= 2 * bound * (workers - 1)
                    others = [x for x in range(workers) if x != rank]
                    assert missing >= sum(max(0, clock - high[x]) for x in others)
                    assert sum(max(0, low[x] - clock) for x in others) <= extra
            worst, worst_of_rows, count, cached = told["summary"]
            assert max(worst, worst_of_rows) <= bound
            assert count == 40
            served_here += cached
        # Who is ahead of the others by the bound asks every time.
        assert bound == 0 or served_here > 0


def check(rank: int, clock: int, low: list[int], high: list[int], bound: int) -> None:
    """At a clock, a worker sees all its own clocks, and of the others none that is too old, or too new."""
    assert low[rank] == high[rank] == clock
    assert min(low) >= clock - bound
    assert max(high) <= clock + bound
