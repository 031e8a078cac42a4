"""Strangers at every door of a job: it starts, goes on and is right, and nothing of theirs is left in it."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.comm.processes import KEY, REFUSAL, Job, free_port
from tests.comm.test_wiring import assert_wired
from tests.hostile.attacks import ATTACKS
from tests.hostile.ports import doors_of
from tests.hostile.strangers import Attack

from unisono.comm.refusals import Why

RANKS = 3
MOST_MORE_MEMORY = 32 << 10  # KiB, whatever strangers did


def wait_until(condition: Any, seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def assert_told_once(texts: list[str]) -> None:
    """Nothing but refusals, and each reason of a rank at its first, its tenth, its hundredth time…"""
    for text in texts:
        lines = text.splitlines()
        assert [line for line in lines if not REFUSAL.match(line)] == []
        assert len(lines) <= 7 * len(Why)
        assert len(set(lines)) == len(lines)


@pytest.mark.parametrize("links", ["auto", "tcp"])
def test_a_job_whose_last_rank_is_late_starts_while_strangers_are_at_all_its_doors(links: str) -> None:
    with Job(4, UNISONO_LINKS=links, UNISONO_DEADLINE="60") as job:
        early = [job.start(rank) for rank in range(3)]
        doors_of_each = 2 if links == "auto" else 1
        wait_until(lambda: len(doors_of(rank.pid for rank in early)) == 3 * doors_of_each + 1)
        with Attack([rank.pid for rank in early], seed=1, connections=120) as first:
            first.wait(60)
        with Attack([rank.pid for rank in early], seed=2, connections=1 << 20) as second:
            job.start(3)
            assert_wired(job.reports())
            second.stop()
    assert first.made.total() == 120
    assert set(first.made) == {attack.__name__ for attack in ATTACKS}
    assert (first.at["unix"] > 0) == (links == "auto")


def start_busy_rank(rank: int, port: int, stop: Path) -> subprocess.Popen[str]:
    inherited = {name: text for name, text in os.environ.items() if not name.startswith("UNISONO_")}
    place = {"UNISONO_RANK": str(rank), "UNISONO_SIZE": str(RANKS), "UNISONO_RENDEZVOUS": f"127.0.0.1:{port}"}
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "tests.hostile.busy_rank", str(stop)],
        env=inherited | place | {"UNISONO_KEY": KEY},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_a_job_that_runs_and_regroups_does_not_notice_strangers(tmp_path: Path, soak: bool) -> None:
    seed, connections = (secrets.randbits(32), 100_000) if soak else (3, 200)
    stop, port, began = tmp_path / "stop", free_port(), time.monotonic()
    with ExitStack() as at_the_end:
        ranks = [start_busy_rank(rank, port, stop) for rank in range(RANKS)]
        for rank in ranks:
            at_the_end.callback(rank.communicate)
            at_the_end.callback(rank.kill)
        with Attack(
            [rank.pid for rank in ranks], seed=seed, connections=connections, attackers=4 if soak else 2
        ) as attack:
            attack.wait(6000 if soak else 120)
        stop.touch()
        ends = [rank.communicate(timeout=120) for rank in ranks]
    reports = [json.loads(out) for out, _ in ends]
    print(f"seed {seed}, {time.monotonic() - began:.0f} s, {attack.made.total()} connections: {dict(attack.made)}")
    print(f"at {dict(attack.at)}", *reports, *(err for _, err in ends), sep="\n")
    assert_told_once([err for _, err in ends])
    assert attack.made.total() == connections
    for report in reports:
        assert report["wrong"] == 0
        assert report["calls"] > 10
        assert report["descriptors after"] == report["descriptors before"]
        assert report["memory after"] - report["memory before"] < MOST_MORE_MEMORY
    assert Counter(attack.made).keys() <= {attack.__name__ for attack in ATTACKS}
