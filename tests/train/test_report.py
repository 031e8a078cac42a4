"""What a report concludes from the times of steps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from unisono.train.report import Report
from unisono.train.times import Ranks, Step, Times

Seconds = Sequence[float]


def report_of(steps: Sequence[Seconds], transfer: float, *, ahead: float = 0.0, rank: int = 0) -> Report:
    """Of a rank, after steps in which each rank computed for so long, came to its one call so much ahead of the end of
    that, and all left the call together, when it had taken its time with the last one."""
    times = Times()
    for number, compute in enumerate([steps[0], *steps]):  # the first one does not count
        came = np.array(compute) - ahead
        left = came.max() + transfer
        exposed = np.maximum(0.0, left - np.array(compute))
        ranks = Ranks(np.full(len(came), np.nan), np.array(compute), exposed, (left - came)[:, None])
        own = {"compute": compute[rank], "communication": left - came[rank], "exposed": exposed[rank]}
        times.add(Step(number, **own, calls=ranks.calls[rank], ranks=ranks))
    return Report.of(times, rank, len(steps[0]), [])


def test_steps_that_transfer_for_longer_than_they_compute_are_limited_by_communication() -> None:
    report = report_of([(0.010, 0.010)] * 5, transfer=0.020)
    assert report.limit == "communication"
    assert report.transfer == pytest.approx(0.020)
    assert "limited by     communication: accumulate" in str(report)


def test_steps_whose_communication_hardly_shows_are_limited_by_compute() -> None:
    assert report_of([(0.100, 0.101)] * 5, transfer=0.004).limit == "compute"
    assert report_of([(0.100, 0.100)] * 5, transfer=0.090, ahead=0.085).limit == "compute"


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_a_rank_that_is_always_late_is_the_straggler(rank: int) -> None:
    report = report_of([(0.010, 0.030, 0.010)] * 5, transfer=0.001, rank=rank)
    assert report.limit == "straggler"
    assert report.straggler is not None
    assert (report.straggler.rank, report.straggler.often) == (1, 1.0)
    assert report.straggler.waited_for == pytest.approx(0.020)
    assert "limited by     rank 1, which comes last" in str(report)


@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("steps", [11, 12])
def test_ranks_that_come_late_by_turns_are_waited_for_and_it_is_not_communication(ranks: int, steps: int) -> None:
    by_turns = [[0.040 if step % ranks == rank else 0.010 for rank in range(ranks)] for step in range(steps)]
    for rank in range(ranks):
        report = report_of(by_turns, transfer=0.001, rank=rank)
        assert report.limit == "waiting"
        assert "limited by     ranks that come late by turns" in str(report)
        assert report.straggler is not None
        assert report.straggler.waited_for == pytest.approx(0.030), "when it was last"


def test_a_rank_that_is_late_but_once_is_not_waited_for_in_other_steps() -> None:
    steps = [(0.100, 0.100)] * 9 + [(0.100, 0.900)]
    assert report_of(steps, transfer=0.001).limit == "compute"


def test_overlap_is_the_part_of_communication_that_backward_hid() -> None:
    report = report_of([(0.100, 0.100)] * 5, transfer=0.040, ahead=0.030)
    assert report.exposed == pytest.approx(0.010)
    assert report.overlap == pytest.approx(0.75)
    assert "75% of communication went on during backward" in str(report)
    assert report_of([(0.100, 0.100)] * 5, transfer=0.040).overlap == pytest.approx(0.0)
