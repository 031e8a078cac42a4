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


def test_a_tensor_that_needs_a_gradient_or_is_not_contiguous_is_read_rightly() -> None:
    x = torch.arange(12.0, requires_grad=True).reshape(3, 4)
    with World(2) as world:
        for result in world.run(lambda comm: comm.allreduce(x.T)):
            assert torch.equal(result, 2 * x.detach().T)


def test_a_tensor_on_another_device_is_refused_by_name() -> None:
    with World(1) as world, pytest.raises(ConfigError, match="device meta"):
        world.ranks[0].allreduce(torch.ones(2, device="meta"))
