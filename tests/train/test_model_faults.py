"""DataParallel used badly, or after something went wrong: errors that name what, on all ranks, and a way on."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable
from time import monotonic
from typing import Any

import pytest

from unisono.comm.communicator import Communicator
from unisono.errors import ConfigError, MismatchError, UnisonoError
from unisono.train import DataParallel

torch = pytest.importorskip("torch", reason="torch is not installed")

from tests.train.test_model import _one_thread as _one_thread  # a fixture  # noqa: E402
from tests.train.test_model import assert_close, gradients, on_ranks, one_batch  # noqa: E402
from tests.train.torch_ranks import Model, batch, loss_of  # noqa: E402


def right() -> list[Any]:
    return one_batch(torch.cat([batch(rank, 0) for rank in range(2)]))


def both_refuse(function: Callable[[Communicator], Any]) -> list[str]:
    def rank(comm: Communicator) -> str:
        began = monotonic()
        with pytest.raises(UnisonoError) as caught:
            function(comm)
        assert monotonic() - began < 15
        return f"{type(caught.value).__name__}: {caught.value}"

    return on_ranks(2, rank)


class Small(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(3, 2)
        self.frozen = torch.nn.Parameter(torch.ones(2, 3), requires_grad=False)
        self.register_buffer("table", torch.ones(2, 3))

    def forward(self, x: Any) -> Any:
        return self.layer(x).sum()


X = torch.ones(4, 3)


def reshape_frozen(model: Any) -> None:
    model.frozen.data = torch.ones(3, 2)


def reshape_buffer(model: Any) -> None:
    model.table = torch.ones(3, 2)


def add_buffer(model: Any) -> None:
    model.register_buffer("more", torch.ones(1))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (reshape_frozen, "frozen parameter frozen is float32 (2, 3) on rank 0, and float32 (3, 2) on rank 1"),
        (reshape_buffer, "buffer table is float32 (2, 3) on rank 0, and float32 (3, 2) on rank 1"),
        (add_buffer, "buffer more is missing on rank 0, and float32 (1,) on rank 1"),
    ],
)
def test_ranks_whose_frozen_parameters_or_buffers_differ_are_told_which(change: Any, message: str) -> None:
    def wrap(comm: Communicator) -> None:
        model = Small()
        if comm.rank == 1:
            change(model)
        DataParallel(model, comm)

    assert all(words.startswith("MismatchError") and message in words for words in both_refuse(wrap))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (reshape_buffer, "buffer table is float32 (2, 3) on rank 0, and float32 (3, 2) on rank 1"),
        (add_buffer, "buffer more is missing on rank 0, and float32 (1,) on rank 1"),
    ],
)
def test_a_buffer_that_changes_later_on_one_rank_is_named(change: Any, message: str) -> None:
    def train(comm: Communicator) -> None:
        model = DataParallel(Small(), comm)
        model(X).backward()
        if comm.rank == 1:
            change(model.module)
        model(X).backward()

    assert all(words.startswith("MismatchError") and message in words for words in both_refuse(train))


def test_buffers_may_change_if_they_do_on_all_ranks() -> None:
    def rank(comm: Communicator) -> None:
        model = DataParallel(Small(), comm)
        for length in (3, 3, 7, 7):
            model.module.table = torch.full((length,), float(comm.rank))
            model(X).backward()
        assert not model.module.table.any(), "those of rank 0, a step after they had changed"

    on_ranks(2, rank)


def test_buffers_of_all_types_begin_as_those_of_rank_0() -> None:
    types = (torch.bool, torch.uint8, torch.int64, torch.complex64, torch.bfloat16, torch.float8_e4m3fn, torch.float64)

    def rank(comm: Communicator) -> None:
        model = Small()
        for number, dtype in enumerate(types):
            model.register_buffer(f"b{number}", torch.full((3,), 1.0 - comm.rank).to(dtype))
        DataParallel(model, comm)
        for number, dtype in enumerate(types):
            found = getattr(model, f"b{number}").to(torch.complex64)
            assert torch.equal(found, torch.ones(3, dtype=torch.complex64)), dtype

    on_ranks(2, rank)


def test_a_buffer_that_cannot_be_sent_is_named() -> None:
    model = Small()
    model.register_buffer("thin", torch.eye(3).to_sparse())
    with pytest.raises(ConfigError, match="buffer thin is "):
        on_ranks(1, lambda comm: DataParallel(model, comm))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda model: model.double(), "frozen was torch.float32 (2, 3) on cpu, and is torch.float64 (2, 3) on cpu"),
        (lambda model: setattr(model.layer.weight, "data", torch.ones(3, 3)), "layer.weight was torch.float32 (2, 3)"),
    ],
)  # fmt: skip
def test_a_model_that_changed_where_it_is_is_refused_and_the_others_are_told(change: Any, message: str) -> None:
    def train(comm: Communicator) -> None:
        model = DataParallel(Small(), comm)
        if comm.rank == 1:
            change(model.module)
        model(X.to(model.module.layer.weight.dtype)).backward()

    first, second = both_refuse(train)
    assert first.startswith("MismatchError")
    assert message in first
    assert second.startswith("ConfigError")
    assert message in second


def test_sparse_gradients_are_averaged_as_dense_ones() -> None:
    def rank(comm: Communicator) -> None:
        for options in ({}, {"wire": torch.float64}):
            model = DataParallel(torch.nn.Embedding(10, 3, sparse=True), comm, **options)
            for _ in range(2):
                model.zero_grad()
                model(torch.tensor([comm.rank, 2])).sum().backward()
                assert model.module.weight.grad.tolist()[:4] == [[0.5] * 3, [0.5] * 3, [1.0] * 3, [0.0] * 3]

    on_ranks(2, rank)


@pytest.mark.filterwarnings("ignore:Using backward.. with create_graph=True")
def test_backward_may_keep_its_graph() -> None:
    def rank(comm: Communicator) -> list[Any]:
        model = DataParallel(Model(), comm, bucket_bytes=1024)
        for _ in range(2):
            model.zero_grad()
            loss_of(model, batch(comm.rank, 0)).backward(create_graph=True)
        return gradients(model)

    for found in on_ranks(2, rank):
        assert_close(found, right())


class Bad(torch.autograd.Function):
    @staticmethod
    def forward(_: Any, x: Any) -> Any:
        return x.clone()

    @staticmethod
    def backward(_: Any, gradient: Any) -> Any:
        raise ValueError("bad batch")


@pytest.mark.parametrize("where", ["step", "step on one rank", "backward", "backward on one rank"])
def test_after_an_exception_in_a_step_all_ranks_hear_of_it_and_go_on(where: str) -> None:
    def rank(comm: Communicator) -> tuple[list[Any], str]:
        model = DataParallel(Model(), comm, bucket_bytes=1024)
        loss_of(model, batch(comm.rank, 0)).backward()
        is_bad, heard, began = comm.rank == 1 or "one" not in where, "", monotonic()
        hook = model.module.layer.register_forward_hook(lambda *_: Bad.apply(_[2])) if is_bad else None
        try:
            if where.startswith("step"):
                with model.step(samples=8):
                    if is_bad:
                        raise ValueError("bad batch")
                    loss_of(model, batch(comm.rank, 0)).backward()
            elif is_bad:
                loss_of(model, batch(comm.rank, 0)).backward()
        except (ValueError, MismatchError) as error:
            heard = str(error)
        if hook:
            hook.remove()
        while True:  # who was told in the next step makes that again
            model.zero_grad()
            try:
                loss_of(model, batch(comm.rank, 0)).backward()
                break
            except MismatchError as error:
                heard = str(error)
        assert monotonic() - began < 15
        return gradients(model), heard

    results = on_ranks(2, rank)
    for found, heard in results:
        assert_close(found, right())
        assert heard
    if where == "step on one rank":
        assert "rank 1 has left step 1: it raised ValueError('bad batch')" in results[0][1]


def test_checkpoints_of_ddp_are_loaded_and_ours_are_loaded_into_ddp(tmp_path: Any) -> None:
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        theirs = DistributedDataParallel(Model())
        torch.nn.init.zeros_(theirs.module.layer.bias)

        def rank(comm: Communicator) -> None:
            ours = DataParallel(Model(), comm)
            ours.load_state_dict(theirs.state_dict(), strict=True)
            assert not ours.module.layer.bias.any()
            torch.nn.init.ones_(ours.module.layer.bias)
            assert list(ours.state_dict()) == list(theirs.state_dict())
            torch.save(ours.state_dict(), tmp_path / "state")
            theirs.load_state_dict(torch.load(tmp_path / "state", weights_only=True), strict=True)
            assert theirs.module.layer.bias.all()

        on_ranks(1, rank)
    finally:
        dist.destroy_process_group()


def test_what_was_learned_survives_a_file(tmp_path: Any) -> None:
    def rank(comm: Communicator) -> None:
        model = DataParallel(Model(), comm, bucket_bytes=1024)
        for _ in range(3):
            with model.step(samples=8):
                loss_of(model, batch(comm.rank, 0)).backward()
        torch.save(model.state_dict(), tmp_path / str(comm.rank))
        other = DataParallel(Model(), comm, bucket_bytes=1024)
        other.load_state_dict(torch.load(tmp_path / str(comm.rank), weights_only=True))
        assert other.learned == model.learned
        assert other.sync.speeds

    on_ranks(2, rank)


def test_ranks_that_load_different_orders_are_told() -> None:
    def train(comm: Communicator) -> None:
        model = DataParallel(Model(), comm, bucket_bytes=1024)
        if comm.rank == 1:
            model._take_over(list(reversed(model.learned["order"])), [])
        loss_of(model, batch(comm.rank, 0)).backward()

    assert all("the order of gradients is " in words for words in both_refuse(train))


def test_a_wrapper_is_not_copied_or_saved_but_says_what_is() -> None:
    def rank(comm: Communicator) -> None:
        model = DataParallel(Model(), comm)
        for attempt in (copy.deepcopy, lambda model: torch.save(model, io.BytesIO())):
            with pytest.raises(ConfigError, match=r"copy model\.module, and save model\.state_dict\(\)"):
                attempt(model)

    on_ranks(1, rank)


def test_buckets_lie_in_memory_that_the_ranks_of_a_host_share() -> None:
    def rank(comm: Communicator) -> None:
        model = DataParallel(torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(3))), comm)
        model(torch.ones(2, 64)).sum().backward()
        for parameter in model.parameters():
            assert "s" in mapping_of(parameter.grad.data_ptr()).split()[1]

    on_ranks(2, rank)


def mapping_of(address: int) -> str:
    with open("/proc/self/maps") as maps:
        for line in maps:
            first, last = (int(end, 16) for end in line.split()[0].split("-"))
            if first <= address < last:
                return line
    raise AssertionError(f"{address:x} is mapped nowhere")


def test_the_last_layers_are_reduced_before_backward_comes_to_the_first() -> None:
    def rank(comm: Communicator) -> None:
        layers = [torch.nn.Linear(64, 64, bias=False) for _ in range(4)]
        model = DataParallel(torch.nn.Sequential(*layers), comm, bucket_bytes=64 * 64 * 4)
        seen: list[list[bool]] = []

        def look(gradient: Any) -> None:
            lane, buckets = model.sync._lanes[0], range(len(model.sync.buckets))
            seen.append([lane.has_started(bucket) for bucket in buckets])

        for _ in range(2):
            model.zero_grad()
            loss = model(torch.ones(2, 64)).sum()
            model.sync._opened()._briefing.wait()  # all ranks have begun
            hook = layers[0].weight.register_hook(look)
            loss.backward()
            hook.remove()
        assert len(model.sync.buckets) == 4
        assert seen == [[True, True, True, False]] * 2

    on_ranks(2, rank)
