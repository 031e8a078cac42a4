"""Tensors in, tensors out. Skipped where torch is not installed: `pip install torch==2.13.0`."""

import pytest
from tests.comm.world import World

from unisono.errors import ConfigError

torch = pytest.importorskip("torch", reason="torch is not installed")


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "int64", "int32", "uint8", "bool"])
def test_tensors_of_every_type_are_summed_into_tensors(dtype: str) -> None:
    kind = getattr(torch, dtype)
    with World(3) as world:
        for result in world.run(lambda comm: comm.allreduce(torch.ones(5, 7).to(kind))):
            assert result.dtype == kind
            assert torch.equal(result, (torch.ones(5, 7).to(kind) * (1 if dtype == "bool" else 3)))


def test_a_tensor_is_filled_in_place() -> None:
    with World(2) as world:
        tensors = [torch.full((1000,), rank + 1.0) for rank in range(2)]
        for tensor, result in zip(
            tensors, world.run(lambda comm: comm.allreduce(tensors[comm.rank], out=tensors[comm.rank])), strict=True
        ):
            assert result is tensor
            assert torch.equal(tensor, torch.full((1000,), 3.0))
        world.run(lambda comm: comm.broadcast(tensors[comm.rank].mul_(comm.rank), root=1))
        assert torch.equal(tensors[0], torch.full((1000,), 3.0))


class Tagged(torch.Tensor):
    """A user's kind of tensor."""


@pytest.mark.parametrize(
    "x",
    [
        torch.arange(12.0).to(torch.bfloat16).reshape(3, 4).T[::2],
        torch.ones(3, dtype=torch.bfloat16, requires_grad=True),
        torch.nn.Parameter(torch.ones(2, 2)),
        torch.ones(4, 2)[:, 1].as_subclass(Tagged),
        torch.ones(2, dtype=torch.bfloat16).as_subclass(Tagged).requires_grad_(),
        torch.tensor(3.0, dtype=torch.bfloat16),
        torch.empty(0, 3),
        torch.ones(5)[::2].expand(2, 3),
    ],
    ids=lambda x: f"{type(x).__name__}-{x.dtype}-{tuple(x.shape)}",
)
def test_tensors_of_any_kind_are_read_rightly_and_tensors_come_back_from_every_call(x) -> None:
    plain = x.detach().clone().as_subclass(torch.Tensor)

    def calls(comm):
        yield comm.allreduce(x), 2 * plain
        yield comm.scan(x), (comm.rank + 1) * plain
        yield comm.allgather(x), torch.stack([plain, plain])
        yield comm.sendrecv(x, 1 - comm.rank, 1 - comm.rank), plain
        if x.ndim:
            yield comm.allgatherv(x), torch.cat([plain, plain])
            counts = [0, len(x)]
            yield comm.reduce_scatter(x, counts=counts), 2 * plain if comm.rank else plain[:0]
            yield comm.alltoallv(x, counts), torch.cat([plain, plain]) if comm.rank else plain[:0]

    def one_rank(comm) -> None:
        for result, right in calls(comm):
            assert type(result) is torch.Tensor
            assert (result.dtype, result.shape) == (right.dtype, right.shape)
            assert torch.equal(result, right)

    with World(2) as world:
        world.run(one_rank)


def test_parameters_are_filled_in_place() -> None:
    models = [torch.nn.Linear(3, 2).to(torch.bfloat16) for _ in range(2)]
    with World(2) as world:
        world.run(lambda comm: [comm.broadcast(parameter, 1) for parameter in models[comm.rank].parameters()])
    for mine, theirs in zip(*(model.parameters() for model in models), strict=True):
        assert torch.equal(mine, theirs)
        assert mine.requires_grad


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: torch.ones(2, device="meta"), "device meta"),
        (lambda: torch.ones(2, dtype=torch.complex64), "complex64"),
        (lambda: torch.ones(2).to(torch.float8_e5m2), "float8_e5m2"),
        (lambda: torch.eye(2).to_sparse(), "Tensor cannot be sent: .*sparse|layout"),
        (lambda: torch.ones(2, dtype=torch.complex64).conj().imag, "Tensor cannot be sent: .*negative bit"),
    ],
    ids=["meta", "complex", "float8", "sparse", "negative bit"],
)
def test_a_tensor_that_cannot_be_sent_is_refused_by_name(make, named: str) -> None:
    with World(1) as world, pytest.raises(ConfigError, match=f"(?s){named}"):
        world.ranks[0].allreduce(make())


def test_a_tensor_that_is_not_contiguous_is_not_filled() -> None:
    with World(1) as world, pytest.raises(ConfigError, match="not contiguous"):
        world.ranks[0].broadcast(torch.ones(3, 3).T[:2])
