"""GradientSync: averages of NumPy gradients, over real links."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.comm.world import World

from unisono import Engine
from unisono.comm.communicator import Communicator
from unisono.errors import ConfigError, MismatchError
from unisono.train import GradientSync
from unisono.train.report import Report, Straggler
from unisono.train.times import Step, Times

SHAPES = {"first": (3, 50), "second": (40, 50), "scale": (), "third": (7,), "last": (50, 30)}
SMALL = 4096  # bytes of a bucket, so that there are several


def parameters(dtype: Any = np.float32) -> dict[str, NDArray[Any]]:
    return {name: np.zeros(shape, dtype) for name, shape in SHAPES.items()}


def gradients(rank: int, step: int = 0, dtype: Any = np.float32) -> dict[str, NDArray[Any]]:
    random = np.random.default_rng([rank, step])
    return {name: np.asarray(random.normal(size=shape)).astype(dtype) for name, shape in SHAPES.items()}


def added_in_rank_order(ranks: int, weights: list[float] | None = None, step: int = 0) -> dict[str, NDArray[Any]]:
    """What one process computes from the ranks' gradients."""
    each = [gradients(rank, step) for rank in range(ranks)]
    factors = [np.float32(weight * ranks / sum(weights)) for weight in weights] if weights else [np.float32(1)] * ranks
    total = {name: each[0][name] * factors[0] for name in SHAPES}
    for rank in range(1, ranks):
        total = {name: total[name] + each[rank][name] * factors[rank] for name in SHAPES}
    return {name: value / np.float32(ranks) for name, value in total.items()}


def backward(sync: GradientSync, rank: int, step: int = 0, but: tuple[str, ...] = ()) -> None:
    mine = gradients(rank, step)
    for name in reversed(SHAPES):
        if name not in but:
            sync.ready(name, mine[name])


def copies(averages: dict[str, Any]) -> dict[str, NDArray[Any]]:
    return {name: np.array(value) for name, value in averages.items()}


def on_ranks(p: int, function: Callable[[Communicator], Any], links: str = "auto") -> list[Any]:
    with World.joined(p, links) as world:
        return world.run(function)


def refusals(p: int, function: Callable[[Communicator], Any]) -> list[Exception]:
    """What each rank raises."""

    def refused(comm: Communicator) -> Exception:
        with pytest.raises((ConfigError, MismatchError)) as caught:
            function(comm)
        return caught.value

    return on_ranks(p, refused)


@pytest.mark.parametrize("links", ["auto", "tcp"])
@pytest.mark.parametrize("weights", [None, [5, 1, 2]])
def test_reproducible_averages_are_those_of_one_process_bit_for_bit(links: str, weights: list[float] | None) -> None:
    def rank(comm: Communicator) -> list[dict[str, NDArray[Any]]]:
        with GradientSync(parameters(), comm, bucket_bytes=SMALL, reproducible=True) as sync:
            assert len(sync.buckets) > 2
            found = []
            for step in range(3):
                sync.begin(weights[comm.rank] if weights else None)
                backward(sync, comm.rank, step)
                found.append(copies(sync.wait()))
            return found

    for found in on_ranks(3, rank, links):
        for step, averages in enumerate(found):
            right = added_in_rank_order(3, weights, step)
            assert all(averages[name].tobytes() == right[name].tobytes() for name in SHAPES)


@pytest.mark.parametrize("options", [{}, {"priority": True}, {"bucket_bytes": 1 << 20}, {"wire": np.float64}])
def test_averages_are_right_however_they_are_made(options: dict[str, Any]) -> None:
    def rank(comm: Communicator) -> dict[str, NDArray[Any]]:
        with GradientSync(parameters(), comm, **({"bucket_bytes": SMALL} | options)) as sync:
            backward(sync, comm.rank)
            return copies(sync.wait())

    for averages in on_ranks(2, rank):
        for name, right in added_in_rank_order(2).items():
            np.testing.assert_allclose(averages[name], right, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_gradients_can_be_added_in_single_precision(dtype: str) -> None:
    pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed")
    from unisono.train.storage import numpy_dtype

    kind = numpy_dtype(dtype)

    def rank(comm: Communicator) -> tuple[NDArray[Any], NDArray[Any]]:
        ones = {"x": np.full(100, 1 if comm.rank == 0 else 2**-9, kind)}
        with GradientSync(ones, comm) as half, GradientSync(ones, comm, wire="float32") as single:
            half.ready("x", ones["x"])
            single.ready("x", ones["x"])
            return copies(half.wait())["x"], copies(single.wait())["x"]

    for half, single in on_ranks(2, rank):
        assert half.dtype == kind
        assert single.dtype == np.float32
        assert (single == (1 + 2**-9) / 2).all()
        assert abs(half.astype(np.float32) - 0.5).max() < 0.01


def test_a_gradient_may_be_written_straight_into_its_place() -> None:
    def rank(comm: Communicator) -> float:
        with GradientSync(parameters(), comm) as sync:
            for name in reversed(SHAPES):
                place = sync.place(name)
                place[...] = comm.rank
                sync.ready(name)
            averages = sync.wait()
            assert averages["last"] is sync.place("last")
            return float(averages["last"][0, 0])

    assert on_ranks(3, rank) == [1.0] * 3


def test_gradients_accumulate_in_no_sync_and_nothing_is_sent() -> None:
    def rank(comm: Communicator) -> tuple[dict[str, Any], int]:
        with GradientSync(parameters(), comm, bucket_bytes=SMALL) as sync:
            before = sync._lanes[0].comm.stats()["calls"]
            with sync.no_sync():
                backward(sync, comm.rank, 0)
                backward(sync, comm.rank, 1)
            calls = sync._lanes[0].comm.stats()["calls"] - before
            backward(sync, comm.rank, 2)
            return copies(sync.wait()), calls

    right = [added_in_rank_order(2, None, step) for step in range(3)]
    for averages, calls in on_ranks(2, rank):
        assert calls == 0
        for name in SHAPES:
            np.testing.assert_allclose(averages[name], sum(each[name] for each in right), rtol=1e-5, atol=1e-5)


def test_a_rank_without_samples_counts_nothing() -> None:
    def rank(comm: Communicator) -> dict[str, Any]:
        with GradientSync(parameters(), comm, bucket_bytes=SMALL) as sync:
            for _ in range(2):
                sync.begin(samples=0 if comm.rank == 1 else 8)
                if comm.rank != 1:
                    backward(sync, comm.rank)
                averages = copies(sync.wait())
            sync.begin(samples=0 if comm.rank == 1 else 8)
            if comm.rank != 1:
                backward(sync, comm.rank)
            else:
                sync.ready("last", np.full(SHAPES["last"], np.nan))  # the mean of nothing
            assert all((again == averages[name]).all() for name, again in sync.wait().items())
            return averages

    right = {name: (gradients(0)[name] + gradients(2)[name]) / 2 for name in SHAPES}
    for averages in on_ranks(3, rank):
        for name in SHAPES:
            np.testing.assert_allclose(averages[name], right[name], rtol=1e-5, atol=1e-6)


def test_an_unused_parameter_counts_as_zero_where_that_is_allowed() -> None:
    def rank(comm: Communicator) -> tuple[dict[str, Any], list[str]]:
        with GradientSync(parameters(), comm, bucket_bytes=SMALL, unused="zero") as sync:
            backward(sync, comm.rank)  # fills the places with something
            sync.wait()
            backward(sync, comm.rank, but=("third",) if comm.rank == 1 else ("third", "first"))
            return copies(sync.wait()), sync.unused

    for averages, unused in on_ranks(2, rank):
        assert unused == ["first", "third"]
        assert not averages["third"].any()
        np.testing.assert_allclose(averages["first"], gradients(1)["first"] / 2, rtol=1e-6)


def test_a_parameter_without_gradient_on_one_rank_is_named_on_all() -> None:
    def rank(comm: Communicator) -> None:
        with GradientSync(parameters(), comm, bucket_bytes=SMALL) as sync:
            backward(sync, comm.rank, but=("second",) if comm.rank == 1 else ())
            sync.wait()

    for error in refusals(3, rank):
        assert isinstance(error, MismatchError)
        assert str(error).startswith("parameter second got no gradient on rank 1 in this step, but on others")
        assert error.ranks == (1,)


def test_a_parameter_without_any_gradient_is_named() -> None:
    def rank(comm: Communicator) -> None:
        with GradientSync(parameters(), comm) as sync:
            backward(sync, comm.rank, but=("scale",))
            sync.wait()

    for error in refusals(2, rank):
        assert str(error).startswith("parameter scale got no gradient on any rank")


def test_after_such_an_error_training_can_go_on() -> None:
    def rank(comm: Communicator) -> dict[str, Any]:
        with GradientSync(parameters(), comm, bucket_bytes=SMALL, reproducible=True) as sync:
            backward(sync, comm.rank, but=("second",) if comm.rank == 1 else ())
            with pytest.raises(MismatchError):
                sync.wait()
            backward(sync, comm.rank)
            return copies(sync.wait())

    for averages in on_ranks(2, rank):
        assert averages["second"].tobytes() == added_in_rank_order(2)["second"].tobytes()


def test_a_parameter_with_two_names_gets_the_sum_of_both_gradients() -> None:
    def rank(comm: Communicator) -> list[Any]:
        weight = np.zeros(5)
        with GradientSync({"embedding": weight, "head": weight}, comm) as sync:
            sync.ready("head", np.full(5, 1.0 + comm.rank))
            assert not sync.is_ready("embedding")
            sync.ready("embedding", np.full(5, 10.0))
            averages = sync.wait()
            return [averages["head"].tolist(), averages["embedding"].tolist()]

    assert on_ranks(2, rank) == [[[11.5] * 5] * 2] * 2


@pytest.mark.parametrize(
    ("other", "number", "here", "there"),
    [
        ({"first": np.zeros((3, 51), np.float32)}, 0, "first: float32 (3, 50)", "first: float32 (3, 51)"),
        ({"third": np.zeros(7)}, 3, "third: float32 (7,)", "third: float64 (7,)"),
        ({"new": np.zeros(1)}, 5, "nothing", "new: float64 (1,)"),
    ],
)
def test_ranks_with_different_models_are_told_the_first_parameter_that_differs(
    other: dict[str, Any], number: int, here: str, there: str
) -> None:
    for error in refusals(2, lambda comm: GradientSync(parameters() | (other if comm.rank else {}), comm)):
        assert isinstance(error, MismatchError)
        assert f"parameter {number} is {here} on rank 0, and {there} on rank 1" in str(error)


def test_ranks_with_different_options_are_told_which() -> None:
    for error in refusals(2, lambda comm: GradientSync(parameters(), comm, reproducible=comm.rank == 1)):
        assert "reproducible=False on rank 0, and reproducible=True on rank 1" in str(error)


def test_samples_are_said_by_all_or_by_none() -> None:
    def rank(comm: Communicator) -> None:
        with GradientSync(parameters(), comm) as sync:
            sync.begin(samples=8 if comm.rank else None)
            backward(sync, comm.rank)
            sync.wait()

    for error in refusals(2, rank):
        assert "rank 0 began a step without samples=" in str(error)


@pytest.mark.parametrize(
    ("misuse", "message"),
    [
        (lambda sync: sync.ready("unknown"), "there is no parameter 'unknown'; there are first, second"),
        (lambda sync: sync.ready("third", np.zeros(8)), r"the gradient of third has shape \(8,\), not \(7,\)"),
        (lambda sync: [sync.ready("third"), sync.ready("third")], "third has got its gradient in this step already"),
        (lambda sync: [sync.begin(), sync.begin()], "step 0 is not over"),
        (lambda sync: sync.begin(samples=-1), "a rank has 0 samples or more"),
        (lambda sync: sync.variable("third"), "has no engine"),
        (lambda sync: GradientSync({}, sync.comm), "there is no parameter"),
        (lambda sync: GradientSync(parameters(), sync.comm, unused="ignore"), "unused='ignore'"),
    ],
)
def test_misuse_is_refused(misuse: Callable[[GradientSync], Any], message: str) -> None:
    def rank(comm: Communicator) -> None:
        with GradientSync(parameters(), comm) as sync, pytest.raises(ConfigError, match=message):
            misuse(sync)

    on_ranks(1, rank)


def test_a_step_that_one_rank_leaves_in_its_middle_ends_on_all() -> None:
    def leave(comm: Communicator) -> None:
        with GradientSync(parameters(), comm, bucket_bytes=SMALL) as sync:
            backward(sync, comm.rank, but=("first",))
            comm.barrier()
            assert 1 / (comm.rank - 1) == -1  # by rank 1 it cannot be divided
            sync.wait()

    def rank(comm: Communicator) -> str:
        began = time.monotonic()
        with pytest.raises((ZeroDivisionError, MismatchError)) as caught:
            leave(comm)
        assert time.monotonic() - began < 15
        return str(caught.value)

    first, second = on_ranks(2, rank)
    assert "rank 1 has left step 0: it raised ZeroDivisionError" in first
    assert second == "division by zero"


def test_operations_of_an_engine_can_wait_for_a_gradient() -> None:
    def rank(comm: Communicator) -> float:
        weights = parameters()
        with Engine(2) as engine, GradientSync(weights, comm, engine=engine, bucket_bytes=SMALL) as sync:
            backward(sync, comm.rank)
            sync.flush()
            for name, weight in weights.items():
                engine.push(
                    lambda name=name, weight=weight: np.subtract(weight, sync.place(name), out=weight),
                    read=[sync.variable(name)],
                )
            engine.wait(deadline=20)
            sync.wait()
            return float(weights["last"][0, 0])

    right = -added_in_rank_order(2)["last"][0, 0]
    assert on_ranks(2, rank) == pytest.approx([right] * 2, rel=1e-5)


def test_one_gradient_can_be_waited_for_before_the_others() -> None:
    def rank(comm: Communicator) -> None:
        with GradientSync(parameters(), comm, bucket_bytes=SMALL, priority=True) as sync:
            backward(sync, comm.rank)
            first = np.array(sync.wait("first")["first"])
            assert sync.is_open
            np.testing.assert_array_equal(first, sync.wait()["first"])
            assert not sync.is_open

    on_ranks(2, rank)


def test_what_forward_needs_first_overtakes_what_is_under_way() -> None:
    layers = {f"layer{number}": np.zeros(1024, np.float32) for number in range(8)}

    def rank(comm: Communicator) -> list[float]:
        with GradientSync(layers, comm, bucket_bytes=SMALL, priority=True) as sync:
            sync.begin()
            comm.barrier()
            names = list(reversed(layers)) if comm.rank == 0 else ["layer1"]
            for name in names:  # on rank 1, only what has priority
                sync.ready(name, np.full(1024, comm.rank, np.float32))
            first = float(sync.wait("layer1")["layer1"][0])  # while rank 0 is in the average of layer7
            comm.barrier()
            for name in reversed(layers):
                if name not in names:
                    sync.ready(name, np.full(1024, comm.rank, np.float32))
            return [first, *(float(average[0]) for average in sync.wait().values())]

    assert on_ranks(2, rank) == [[0.5] * 9] * 2


def test_buckets_follow_the_order_in_which_gradients_came() -> None:
    def rank(comm: Communicator) -> list[list[str]]:
        with GradientSync(parameters(), comm, bucket_bytes=SMALL, reorder=True) as sync:
            mine = gradients(comm.rank)
            for name in SHAPES if comm.rank == 0 else reversed(SHAPES):
                sync.ready(name, mine[name])
            averages = copies(sync.wait())
            assert all((sync.place(name) == averages[name]).all() for name in SHAPES)
            backward(sync, comm.rank)
            again = copies(sync.wait())
            np.testing.assert_allclose(again["second"], averages["second"])
            return [bucket.names for bucket in sync.buckets]

    first, second = on_ranks(2, rank)
    assert first == second
    assert [name for names in first for name in names] == list(SHAPES)


def test_who_came_last_is_known_from_what_calls_took_and_the_report_names_the_straggler() -> None:
    times = Times()
    early, late = [10, 0.1, 0.5, 0.5, 0.1], [10, 0.5, 0.1, 0.1, 0.1]  # samples, compute, exposed and two calls
    for number in range(6):
        times.add(Step(number, samples=10, compute=0.1, communication=0.6, exposed=0.5, calls=np.array([0.5, 0.1])))
        if number < 5:
            times.learn(np.array([early, late, early]))
    assert [step.last for step in times.steps] == [1] * 5 + [None]
    report = Report.of(times, 0, 3, [])
    assert report.limit == "straggler"
    assert report.straggler == Straggler(1, 1.0, pytest.approx(0.4))
    assert report.compute == pytest.approx(0.1)
    assert report.rank_compute == pytest.approx((0.1, 0.5, 0.1))
    assert report.overlap == pytest.approx(1 / 6)
    assert "rank 1, which comes last" in str(report)


def test_every_step_knows_what_all_ranks_took_and_most_know_who_came_last() -> None:
    came = threading.Semaphore(0)

    def rank(comm: Communicator) -> tuple[list[int | None], str, list[int]]:
        with GradientSync(parameters(), comm, bucket_bytes=SMALL) as sync:
            for step in range(8):
                sync.begin(samples=10)
                if comm.rank == 1:
                    assert came.acquire(timeout=20)
                    assert came.acquire(timeout=20)
                time.sleep(0.5 if comm.rank == 1 else 0.1)  # computes
                backward(sync, comm.rank, step)
                if comm.rank != 1:
                    came.release()
                sync.wait()
            report = sync.report()
            assert report.limit == "straggler"
            assert report.straggler is not None
            assert report.straggler.waited_for > 0.2
            assert report.compute >= (0.5 if comm.rank == 1 else 0.1)
            assert 0 <= report.overlap <= 1
            return [step.last for step in sync.times.steps], str(report), sync.shares(100)

    for last, report, shares in on_ranks(3, rank):
        assert last[-1] is None
        assert None not in last[:-1]
        assert last.count(1) > 4  # whoever was kept from the processor in one of them
        assert "rank 1, which comes last" in report
        assert shares[0] > 2 * shares[1] < shares[2]
        assert sum(shares) == 100


def test_all_buckets_of_a_step_are_timed_however_small_they_were_wanted() -> None:
    def rank(comm: Communicator) -> None:
        small = {f"p{number}": np.zeros(64, np.float32) for number in range(600)}
        with GradientSync(small, comm, bucket_bytes=64) as sync:
            for _ in range(3):
                sync.begin(samples=1 + comm.rank)
                for name in reversed(small):
                    sync.ready(name, small[name])
                sync.wait()
            assert 64 < sync.bucket_bytes < 4096
            assert [step.last is None for step in sync.times.steps] == [False, False, True]
            assert all(not np.isnan(step.calls).any() for step in sync.times.steps)
            assert sync.speeds

    on_ranks(2, rank)


@pytest.mark.parametrize("size", [0, -5, 1.5])
def test_buckets_without_bytes_are_refused(size: Any) -> None:
    for error in refusals(1, lambda comm: GradientSync(parameters(), comm, bucket_bytes=size)):
        assert str(error).startswith("bucket_bytes")
