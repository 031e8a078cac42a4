"""DataParallel: torch's models. Skipped where torch is not installed: `pip install torch==2.13.0`."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable, Iterator
from time import monotonic
from typing import Any

import pytest
from tests.comm.world import World

import unisono
from unisono import train
from unisono.comm.communicator import Communicator
from unisono.errors import ConfigError, MismatchError, UnisonoError
from unisono.train import DataParallel

torch = pytest.importorskip("torch", reason="torch is not installed")

from tests.train.torch_ranks import (  # noqa: E402
    ROWS,
    Model,
    alone,
    batch,
    compiled_and_trained,
    loss_of,
    reproducibly_trained,
    trained,
)


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def on_ranks(p: int, function: Callable[[Communicator], Any], links: str = "auto") -> list[Any]:
    with World.joined(p, links) as world:
        return world.run(function)


def gradients(model: Any) -> list[Any]:
    return [None if parameter.grad is None else parameter.grad.clone() for parameter in model.parameters()]


def assert_close(found: list[Any], right: list[Any], tolerance: float = 1e-6) -> None:
    for one, other in zip(found, right, strict=True):
        torch.testing.assert_close(one, other.to(one.dtype), rtol=1e-4, atol=tolerance)


def one_batch(rows: Any, model: Any = None) -> list[Any]:
    model = model or Model()
    loss_of(model, rows).backward()
    return gradients(model)


def test_processes_end_with_the_bits_of_one_process() -> None:
    found = unisono.launch(reproducibly_trained, 2, timeout=120)
    assert found[0] == found[1] == alone(2)


def test_a_compiled_wrapper_computes_the_same_bits() -> None:
    found = unisono.launch(compiled_and_trained, 2, timeout=120)
    assert found[0] == found[1] == alone(2)


@pytest.mark.parametrize(("ranks", "links"), [(3, "auto"), (2, "tcp")])
def test_reproducible_training_has_the_bits_of_one_process(ranks: int, links: str) -> None:
    right = alone(ranks)
    assert on_ranks(ranks, lambda comm: trained(comm, reproducible=True), links) == [right] * ranks


def test_gradients_lie_in_the_buckets_and_are_those_of_one_batch() -> None:
    def rank(comm: Communicator) -> list[Any]:
        model = DataParallel(Model(), comm, bucket_bytes=1024)
        for _ in range(2):  # the second time buckets have another order
            model.zero_grad()
            loss_of(model, batch(comm.rank, 0)).backward()
            for name, parameter in model.module.named_parameters():
                assert parameter.grad.data_ptr() == model.sync.place(name).data_ptr()
        assert model.sync.arrangement == 1
        return gradients(model)

    right = one_batch(torch.cat([batch(rank, 0) for rank in range(2)]))
    for found in on_ranks(2, rank):
        assert_close(found, right)


def test_uneven_batches_are_weighted_by_their_samples() -> None:
    rows = [8, 3, 0]

    def rank(comm: Communicator) -> list[Any]:
        model = DataParallel(Model(), comm, bucket_bytes=1024)
        for _ in range(2):
            model.zero_grad()
            with model.step(samples=rows[comm.rank]):
                if rows[comm.rank]:
                    loss_of(model, batch(comm.rank, 0, rows[comm.rank])).backward()
        return gradients(model)

    right = one_batch(torch.cat([batch(rank, 0, count) for rank, count in enumerate(rows)]))
    for found in on_ranks(3, rank):
        assert_close(found, right)


def test_no_sync_accumulates_over_micro_batches() -> None:
    def rank(comm: Communicator) -> list[Any]:
        model = DataParallel(Model(), comm, bucket_bytes=1024)
        for _ in range(2):
            model.zero_grad()
            with model.no_sync():
                (loss_of(model, batch(comm.rank, 0)) / 2).backward()
            local = model.module.layer.weight.grad.clone()
            (loss_of(model, batch(comm.rank, 1)) / 2).backward()
            assert not torch.equal(local, model.module.layer.weight.grad)
        return gradients(model)

    right = one_batch(torch.cat([batch(rank, step) for rank in range(2) for step in range(2)]))
    for found in on_ranks(2, rank):
        assert_close(found, right)


def test_gradients_that_are_not_zeroed_go_on_accumulating() -> None:
    def rank(comm: Communicator) -> list[Any]:
        model = DataParallel(Model(), comm, bucket_bytes=1024)
        for step in range(2):
            loss_of(model, batch(comm.rank, step)).backward()
        return gradients(model)

    each = [one_batch(torch.cat([batch(rank, step) for rank in range(2)])) for step in range(2)]
    for found in on_ranks(2, rank):
        assert_close(found, [a + b for a, b in zip(*each, strict=True)])


class Branches(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.left, self.right, self.never = (torch.nn.Linear(4, 4, bias=False) for _ in range(3))

    def forward(self, x: Any, *ways: str) -> Any:
        return sum(getattr(self, way)(x).sum() for way in ways)


def test_parameters_that_one_rank_does_not_use_count_as_zero_if_that_is_allowed() -> None:
    def rank(comm: Communicator) -> None:
        model = DataParallel(Branches(), comm, unused="zero")
        for to_none in (True, False):
            model.zero_grad(set_to_none=to_none)
            model(torch.ones(1, 4), "left" if comm.rank == 0 else "right").backward()
            for branch in (model.module.left, model.module.right):
                assert torch.equal(branch.weight.grad, torch.full((4, 4), 0.5))
            assert model.module.never.weight.grad is None
        assert model.sync.unused_everywhere == ["never.weight"]

    on_ranks(2, rank)


def test_a_parameter_without_gradient_on_one_rank_is_named() -> None:
    def rank(comm: Communicator) -> Exception:
        model = DataParallel(Branches(), comm)
        loss = model(torch.ones(1, 4), "left", "never", *(["right"] if comm.rank != 1 else []))
        with pytest.raises(MismatchError) as caught:
            loss.backward()
        return caught.value

    for error in on_ranks(2, rank):
        assert str(error).startswith("parameter right.weight got no gradient on rank 1 in this step, but on others")


def test_ranks_with_different_models_are_told_the_first_parameter_that_differs() -> None:
    def rank(comm: Communicator) -> str:
        with pytest.raises(MismatchError) as caught:
            DataParallel(torch.nn.Linear(4, 5 if comm.rank == 2 else 6), comm)
        return str(caught.value)

    expected = "parameter 0 is weight: float32 (6, 4) on rank 0, and weight: float32 (5, 4) on rank 2"
    assert all(expected in message for message in on_ranks(3, rank))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda model: setattr(model, "more", torch.nn.Linear(2, 2)), "more was added"),
        (lambda model: setattr(model.layer, "bias", torch.nn.Parameter(torch.ones(16))), "layer.bias was replaced"),
        (lambda model: model.layer.bias.requires_grad_(False), "layer.bias.requires_grad was set to False"),
        (lambda model: delattr(model, "norm"), "norm was removed"),
    ],
)  # fmt: skip
def test_a_model_that_changed_after_wrapping_is_refused(change: Callable[[Any], None], message: str) -> None:
    def rank(comm: Communicator) -> None:
        model = DataParallel(Model(), comm)
        change(model.module)
        with pytest.raises(ConfigError, match=f"the model has changed since it was wrapped: {message}"):
            model(batch(0, 0)[:, 0])

    on_ranks(1, rank)


def test_other_ranks_do_not_wait_for_one_whose_model_changed() -> None:
    def rank(comm: Communicator) -> str:
        model = DataParallel(Model(), comm)
        if comm.rank == 1:
            model.module.more = torch.nn.Linear(2, 2)
        began = monotonic()
        with pytest.raises(UnisonoError) as caught:
            loss_of(model, batch(comm.rank, 0)).backward()
        assert monotonic() - began < 15
        return f"{type(caught.value).__name__}: {caught.value}"

    first, second = on_ranks(2, rank)
    assert "MismatchError" in first
    assert "rank 1 has left step 0: its model has changed, more was added" in first
    assert second.startswith("ConfigError: the model has changed")


def test_all_begin_with_the_parameters_and_buffers_of_rank_0_and_buffers_stay_equal() -> None:
    def rank(comm: Communicator) -> list[Any]:
        module = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3))
        torch.nn.init.constant_(module[0].weight, comm.rank + 1.0)
        module[1].running_mean.fill_(comm.rank + 2.0)
        model = DataParallel(module, comm)
        assert (module[0].weight == 1).all()
        assert (module[1].running_mean == 2).all()
        for _ in range(2):
            model(torch.randn(5, 4, generator=torch.Generator().manual_seed(comm.rank))).sum().backward()
        model.zero_grad()
        with model.step():
            found = [module[1].running_mean.clone(), module[1].num_batches_tracked.clone()]
            model(torch.ones(5, 4)).sum().backward()
        return found

    first, second = on_ranks(2, rank)
    assert torch.equal(first[0], second[0])
    assert first[1] == second[1] == 2


def test_buffers_stay_those_of_each_rank_if_they_are_not_broadcast() -> None:
    def rank(comm: Communicator) -> Any:
        module = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3))
        module[1].running_mean.fill_(comm.rank + 2.0)
        model = DataParallel(module, comm, broadcast_buffers=False)
        assert (module[1].running_mean == 2).all(), "they begin as those of rank 0"
        for step in range(2):
            model.zero_grad()
            rows = torch.randn(5, 4, generator=torch.Generator().manual_seed(10 * step + comm.rank))
            model(rows).sum().backward()
        return module[1].running_mean.clone(), module[1].weight.grad.clone()

    (first, gradient), (second, same_gradient) = on_ranks(2, rank)
    assert not torch.equal(first, second)
    assert torch.equal(gradient, same_gradient)


def test_without_torch_the_import_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "unisono.train.model")
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ConfigError, match=r"torch is not installed: pip install torch\. GradientSync works"):
        train.DataParallel  # noqa: B018


def test_a_torch_that_is_too_old_for_hooks_on_gradients_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "unisono.train.model")
    monkeypatch.delattr(torch.Tensor, "register_post_accumulate_grad_hook")
    monkeypatch.setattr(torch, "__version__", "2.0.1")
    with pytest.raises(ConfigError, match=r"this is torch 2\.0\.1; DataParallel needs 2\.1 or newer"):
        train.DataParallel  # noqa: B018


@pytest.mark.parametrize("options", [{"wire": torch.bfloat16}, {"wire": torch.float64}])
def test_gradients_may_be_sent_as_another_type(options: dict[str, Any]) -> None:
    def rank(comm: Communicator) -> list[Any]:
        model = DataParallel(Model(), comm, bucket_bytes=1024, **options)
        for _ in range(2):
            model.zero_grad()
            with model.no_sync():
                (loss_of(model, batch(comm.rank, 0)) / 2).backward()
            (loss_of(model, batch(comm.rank, 1)) / 2).backward()
        return gradients(model)

    right = one_batch(torch.cat([batch(rank, step) for rank in range(2) for step in range(2)]))
    for found in on_ranks(2, rank):
        assert all(gradient.dtype == torch.float32 for gradient in found)
        assert_close(found, right, 1e-6 if options["wire"] == torch.float64 else 3e-2)


def test_half_precision_models_and_scaled_losses_work() -> None:
    def rank(comm: Communicator) -> list[Any]:
        model = DataParallel(Model().to(torch.bfloat16), comm)
        loss_of(model, batch(comm.rank, 0)).backward()
        assert all(parameter.grad.dtype == torch.bfloat16 for parameter in model.parameters())
        scaled = DataParallel(Model(), comm)
        optimizer = torch.optim.SGD(scaled.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        for step in range(3):
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16):
                loss = loss_of(scaled, batch(comm.rank, step))
            if (comm.rank, step) == (1, 1):
                loss = loss * float("inf")  # on one rank only: all of them skip the step
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        assert scaler.get_scale() == 512.0
        return [parameter.detach().clone() for parameter in scaled.parameters()]

    first, second = on_ranks(2, rank)
    assert all(torch.equal(a, b) and torch.isfinite(a).all() for a, b in zip(first, second, strict=True))


def test_a_checkpoint_has_the_model_and_what_was_learned_of_the_machine() -> None:
    def rank(comm: Communicator) -> None:
        model = DataParallel(Model(), comm, bucket_bytes=1024)
        for step in range(3):
            with model.step(samples=ROWS):
                loss_of(model, batch(comm.rank, step)).backward()
        torch.nn.init.zeros_(model.module.layer.bias)
        state = model.state_dict()
        other = DataParallel(Model(), comm, bucket_bytes=1024)
        other.load_state_dict(state)
        assert other.sync.order == model.sync.order
        assert other.sync.speeds == model.sync.speeds != []
        assert not other.module.layer.bias.any()
        loss_of(other, batch(comm.rank, 0)).backward()

    on_ranks(2, rank)


def test_a_wrapper_that_is_forgotten_goes_and_the_model_trains_on_alone() -> None:
    def rank(comm: Communicator) -> None:
        module = Model()
        model = DataParallel(module, comm)
        loss_of(model, batch(comm.rank, 0)).backward()
        forgotten = weakref.ref(model)
        del model
        gc.collect()
        assert forgotten() is None
        module.zero_grad()
        loss_of(module, batch(comm.rank, 0)).backward()
        assert_close(gradients(module), one_batch(batch(comm.rank, 0)))

    on_ranks(1, rank)


def test_evaluation_without_gradients_makes_no_call() -> None:
    def rank(comm: Communicator) -> None:
        model = DataParallel(Model(), comm)
        before = model.sync.own_comm.stats()["calls"]
        with torch.no_grad():
            model(batch(0, 0)[:, 0])
        assert model.sync.own_comm.stats()["calls"] == before
        assert not model.sync.is_open

    on_ranks(2, rank)


@pytest.mark.parametrize(
    ("wrapped", "message"),
    [
        (lambda: [1, 2], "wraps a torch.nn.Module, not a list"),
        (lambda: torch.nn.LazyLinear(3), "parameter weight has no shape yet"),
        (lambda: torch.nn.Linear(2, 2, device="meta"), "parameter weight is on device meta"),
        (lambda: torch.nn.ReLU(), "there is no parameter"),
    ],
)
@pytest.mark.filterwarnings("ignore:Lazy modules")
def test_what_cannot_be_wrapped_is_refused(wrapped: Callable[[], Any], message: str) -> None:
    def rank(comm: Communicator) -> None:
        with pytest.raises(ConfigError, match=message):
            DataParallel(wrapped(), comm)

    on_ranks(1, rank)
