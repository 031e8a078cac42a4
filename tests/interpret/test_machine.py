"""A machine has rates that there can be, and hosts with the ranks of the schedule."""

import pytest

from unisono.errors import ConfigError
from unisono.interpret.machine import Link, Machine
from unisono.interpret.price import price
from unisono.plan import Job
from unisono.schedule.catalog import find

GOOD = Link(1e-6, 1e-9)


@pytest.mark.parametrize("wrong", [-1e-9, float("nan"), float("inf")])
def test_rates_are_seconds_from_0_up(wrong: float) -> None:
    for what, make in {
        "alpha": lambda: Machine(Link(wrong, 1e-9)),
        "beta": lambda: Machine(Link(1e-6, wrong)),
        "gamma": lambda: Machine(GOOD, wrong),
        "local alpha": lambda: Machine(GOOD, 0.0, local=Link(wrong, 0.0), hosts=(2, 2)),
        "local beta": lambda: Job(1, 0.1, GOOD, local=Link(0.0, wrong)),
    }.items():
        with pytest.raises(ConfigError, match=f"^{what} is seconds from 0 up, not .*; the nearest is 0"):
            make()


def test_hosts_have_the_ranks_of_the_schedule() -> None:
    schedule = find("allreduce", "ring").schedule(4)
    with pytest.raises(ConfigError, match=r"the hosts \(3, 3\) have 6 ranks, not 4"):
        price(schedule, 100, Machine(GOOD, 0.0, local=GOOD, hosts=(3, 3)))
    with pytest.raises(ConfigError, match="hosts have 1 rank or more, not 0"):
        Machine(GOOD, 0.0, local=GOOD, hosts=(4, 0))
