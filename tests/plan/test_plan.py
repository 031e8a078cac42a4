"""Plans: closed forms, what overlap hides, and advice that follows from both."""

from dataclasses import replace
from math import isclose

import pytest

from unisono.errors import ConfigError
from unisono.interpret.machine import Link
from unisono.plan import Job, Plan, plan
from unisono.plan.advice import advise
from unisono.plan.forecast import Step, step_time
from unisono.plan.strategies import Exchange

ALPHA, BETA, GAMMA = 1e-5, 1e-9, 1e-10
N = 1_600_000_000
JOB = Job(N, 0.5, Link(ALPHA, BETA), GAMMA)


def step(name: str, hosts: int, job: Job = JOB, *, overlapped: bool = False) -> Step:
    return plan(job, [hosts]).of(name, overlapped=overlapped)[0]


def test_a_step_is_computation_and_then_an_exchange() -> None:
    for hosts in (2, 4, 16):
        f = (hosts - 1) / hosts
        ring = 2 * (hosts - 1) * ALPHA + 2 * f * N * BETA + f * N * GAMMA
        found = step("ring", hosts)
        assert isclose(found.time, 0.5 + ring)
        assert isclose(found.exchange.time, ring)
        assert isclose(found.efficiency, 0.5 / (0.5 + ring))
        rounds = 2 * (hosts - 1).bit_length()
        assert isclose(step("halving and doubling", hosts).exchange.time, ring - (2 * (hosts - 1) - rounds) * ALPHA)


def test_one_host_has_nothing_to_exchange() -> None:
    for overlapped in (False, True):
        assert isclose(step("ring", 1, overlapped=overlapped).time, 0.5)


def test_servers_push_and_pull_and_streaming_halves_it() -> None:
    """8 hosts, of which 4 serve: each worker's vector and each server's share are n, up and down again."""
    plain, streamed = step("servers", 8), step("servers, streamed", 8)
    workers, servers = plain.exchange.workers, plain.exchange.servers
    assert workers + servers == 8
    wire = max(1.0, workers / servers) * N * BETA
    assert isclose(plain.exchange.time, 2 * ALPHA + 2 * wire + (workers - 1) * N / servers * GAMMA)
    workers, servers = streamed.exchange.workers, streamed.exchange.servers
    wire = max(1.0, workers / servers) * N * BETA
    assert wire < streamed.exchange.time < 1.15 * (wire + (workers - 1) * N / servers * GAMMA)


def test_a_dedicated_server_does_not_compute() -> None:
    found = step("servers", 8)
    assert isclose(found.efficiency, found.exchange.workers / 8 * 0.5 / found.time)


def test_overlap_hides_the_shorter_stage_but_for_one_bucket() -> None:
    job = replace(JOB, buckets=4, backward=0.8)
    backward, forward = 0.4, 0.1
    assert isclose(step_time(job, 0.02, overlapped=True), forward + backward + 0.02)
    assert isclose(step_time(job, 0.3, overlapped=True), forward + backward / 4 + 4 * 0.3)
    for hosts in (2, 8, 16):
        for name in plan(job, [hosts]).strategies:
            assert step(name, hosts, job, overlapped=True).time < step(name, hosts, job).time


def test_rings_inside_hosts_leave_less_to_the_links_between() -> None:
    job = replace(JOB, per_host=8, local=Link(1e-6, 1e-11))
    hierarchical, halving = step("hierarchical", 4, job), step("halving and doubling", 4, job)
    f = 3 / 4
    between = 2 * 3 * ALPHA + 2 * f * N * BETA  # the columns of 8 ranks share the host's link
    assert between < hierarchical.exchange.time < 1.2 * between
    assert halving.exchange.time > hierarchical.exchange.time


def test_cost_is_hosts_times_hours_per_batch() -> None:
    found = step("ring", 4)
    assert isclose(found.cost(3.6), 1000 * 4 * 3.6 / 3600 * found.time / 4)


def test_slow_links_are_named_and_faster_ones_advised() -> None:
    advice = advise(plan(JOB, [1, 2, 4, 8, 16]))
    assert advice.bottleneck == "the links (β)"
    assert advice.changes[0].what in ("links twice as fast", "half as many bytes (16-bit gradients)",
                                      "a step of twice the computation (larger batches)")  # fmt: skip
    assert advice.changes[0].gain > 1.8
    assert advice.stops_paying == 1
    assert advice.breaks_even == 8  # 8 hosts in 0.5 s + 3 s


def test_slow_computation_is_named_and_adding_hosts_pays() -> None:
    advice = advise(plan(replace(JOB, nbytes=1_000_000), [1, 2, 4, 8, 16]))
    assert advice.bottleneck == "computation"
    assert advice.changes[0].what == "computing twice as fast"
    assert advice.stops_paying is None
    assert advice.breaks_even is None


def test_machines_stop_paying_where_none_beyond_pays() -> None:
    """The second host adds less than half, those after it a little more than half."""
    job = Job(500_000_000, 1.0, Link(1e-6, 0.8e-9), 0.0, buckets=1)
    found = plan(job, [1, 2, 3, 4, 48, 64])
    assert found.best(2).rate - 1 < 0.5 < found.best(3).rate - found.best(2).rate
    advice = advise(found)
    assert (advice.stops_paying, advice.pays_from) == (None, 2)


@pytest.mark.parametrize(
    ("rates", "stops", "pays_from"),
    [
        ({1: 1.0, 2: 1.9, 4: 3.0, 8: 3.1, 16: 3.2}, 4, None),
        ({1: 1.0, 2: 1.1, 4: 3.0, 8: 3.1, 16: 2.0}, 4, None),
        ({1: 1.0, 2: 1.1, 4: 1.2, 8: 1.3}, 1, None),
        ({1: 1.0, 2: 1.9, 4: 2.0, 8: 6.0}, None, 4),
        ({1: 1.0, 2: 1.9, 4: 3.4}, None, None),
        ({1: 1.0}, None, None),
    ],
)
def test_what_is_said_of_all_that_follow_holds_for_all_that_follow(rates: dict, stops: int, pays_from: int) -> None:
    steps = [Step("ring", hosts, True, Exchange(0, 0, 0, 0, hosts), 0.5, hosts / rate) for hosts, rate in rates.items()]
    advice = advise(Plan(JOB, tuple(rates), tuple(steps), steps[0]))
    assert (advice.stops_paying, advice.pays_from) == (stops, pays_from)


def test_numbers_without_one_are_compared_with_one_host() -> None:
    advice = advise(plan(Job(4_000_000_000, 0.3), [4]))
    assert (advice.stops_paying, advice.breaks_even) == (1, -1)
    assert advice.most.hosts == 1
    assert advise(plan(replace(JOB, nbytes=1_000_000), [4])).stops_paying is None


def test_a_lone_host_with_several_ranks_has_them_to_wait_for() -> None:
    lone = plan(replace(JOB, per_host=8), [2]).lone
    assert lone.time > JOB.compute


def test_a_start_up_that_grows_with_hosts_ends_the_gain() -> None:
    """A ring never comes beyond the batch that it adds every 2α."""
    job = Job(1_000_000, 0.01, Link(20e-3, 1e-10), 0.0, buckets=1)
    found = plan(job, [1, 4, 32])
    rings = found.of("ring", overlapped=False)
    assert isclose(rings[-1].time, 0.01 + 2 * 31 * 20e-3 + 2 * 31 / 32 * 1e6 * 1e-10, rel_tol=1e-6)
    assert rings[-1].rate == pytest.approx(1 / 40e-3, rel=0.03)
    assert advise(found).bottleneck == "starting messages (α)"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"nbytes": 0}, "at least 1"),
        ({"compute": 0.0}, "longer than 0 s"),
        ({"backward": 1.5}, "from 0 to 1"),
        ({"buckets": 0}, "the nearest is 1"),
        ({"per_host": -8}, "the nearest is 1"),
    ],
)
def test_jobs_that_make_no_sense(changes: dict, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        replace(JOB, **changes)


def test_there_is_at_least_one_host() -> None:
    with pytest.raises(ConfigError, match="the nearest is 1"):
        plan(JOB, [0, 4])


@pytest.mark.parametrize(
    ("count", "said"),
    [
        (1.5, "not 1.5; the nearest is 2"),
        (0.2, "not 0.2; the nearest is 1"),
        (float("nan"), "not nan"),
        ("4", "not '4'"),
    ],
)
def test_hosts_are_counted_in_whole_numbers(count: object, said: str) -> None:
    with pytest.raises(ConfigError, match=f"numbers of hosts are whole, {said}$"):
        plan(JOB, [1, count])  # type: ignore[list-item]
