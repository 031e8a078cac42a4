"""One rank is killed, or stands still, somewhere: all others say so in time, name it, and nothing is left.

A sample in the usual run; 500 kills and 200 stalls in a soak, which prints the slowest.
"""

from __future__ import annotations

import os
import random
import secrets
from collections.abc import Iterator

import pytest
from tests.comm.processes import shared_memory
from tests.failure.cases import LINKS, Case, draw
from tests.failure.job import Outcome, play
from tests.lab.labs import reason_to_skip

from unisono.lab import Lab

IN_TIME = 1.0  # seconds, on a quiet machine
MARGIN = 15.0  # for one that is not
SAMPLE = {"kill": 3, "stall": 1}
SOAK = {"kill": 130, "stall": 50}  # on each kind of links


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab | None]:
    if reason_to_skip():
        yield None
        return
    with Lab(hosts=4) as lab:
        yield lab


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("links", LINKS)
@pytest.mark.parametrize("action", ["kill", "stall"])
def test_all_others_name_the_rank_that_is_lost(action: str, links: str, lab: Lab | None, soak: bool) -> None:
    if links == "lab" and lab is None:
        pytest.skip(reason_to_skip())
    seed = secrets.randbits(32) if soak else 1
    rng = random.Random(f"{seed} {action} {links}")
    before = shared_memory()
    delays: list[tuple[float, Case]] = []
    for number in range((SOAK if soak else SAMPLE)[action]):
        case = draw(rng, action, links)
        outcomes = play(case, lab if links == "lab" else None)
        assert isinstance(outcomes, dict), f"{outcomes}; seed {seed}, number {number}"
        what = f"{case}; seed {seed}, number {number}"
        delays.append((check(case, outcomes, what), case))
        assert shared_memory() <= before, what
    delays.sort(key=lambda delay: delay[0])
    slowest, which = delays[-1]
    middle = delays[len(delays) // 2][0]
    print(
        f"{len(delays)} times {action} over {links}, seed {seed}: all right; the slowest survivor {slowest:.3f} s late"
    )
    print(f"({which}), the median of the slowest {middle:.3f} s")


def check(case: Case, outcomes: dict[int, Outcome], what: str) -> float:
    """How long the slowest survivor took, from the death, or beyond its deadline."""
    victim, slowest = outcomes[case.victim], 0.0
    if case.action == "kill":
        assert os.waitstatus_to_exitcode(victim.status) == -9, f"{victim}, {what}"
    else:
        assert victim.report is not None, what
        assert victim.report.get("error") in ("PeerLost", "DeadlineExceeded"), f"{victim}, {what}"
    for rank, outcome in outcomes.items():
        if rank == case.victim:
            continue
        assert outcome.status == 0, f"rank {rank}: {outcome}, {what}"
        report = outcome.report
        assert report is not None, what
        assert report["error"] in ("PeerLost", "DeadlineExceeded"), f"rank {rank}: {report}, {what}"
        assert f"rank {case.victim} " in report["text"], f"rank {rank}: {report}, {what}"
        assert case.victim in report["ranks"], f"rank {rank}: {report}, {what}"
        assert not report["went_on"], f"rank {rank}: {report}, {what}"
        since = victim.ended if case.action == "kill" else report["began"] + case.deadline
        slowest = max(slowest, report["when"] - since)
    assert slowest < IN_TIME + MARGIN, f"{slowest} s, {what}"
    return slowest
