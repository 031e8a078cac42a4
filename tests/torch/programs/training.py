"""DDP, FSDP2, tensors and layers that are cut, pipelines and checkpoints."""

from __future__ import annotations

from typing import Any

from tests.torch.programs.models import alone, batches, model, same


def ddp(rank: int) -> None:
    """Plain, with hooks, and with no_sync."""
    import torch
    import torch.distributed as dist
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
    from torch.nn.parallel import DistributedDataParallel

    size = dist.get_world_size()
    hooks = (None, 1e-6), (default_hooks.allreduce_hook, 1e-6), (default_hooks.fp16_compress_hook, 1e-3)
    for hook, tolerance in hooks:
        net = DistributedDataParallel(model(), bucket_cap_mb=0.001)
        if hook:
            net.register_comm_hook(None, hook)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for batch in batches(3, size)[:, rank]:
            optimizer.zero_grad()
            net(batch).pow(2).mean().backward()
            optimizer.step()
        same(net.parameters(), alone(size, 3), tolerance)
    net = DistributedDataParallel(model())
    with net.no_sync():
        net(batches(1, size)[0, rank]).sum().backward()
    before = net.module[0].weight.grad.clone()
    net(batches(1, size)[0, rank]).sum().backward()
    dist.all_reduce(before)
    assert torch.allclose(net.module[0].weight.grad, 2 * before / size, atol=1e-5)


def ddp_with_uneven_inputs(rank: int) -> None:
    """Rank r has r + 1 batches; who has no more of them counts as 0."""
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    size = dist.get_world_size()
    every_batch = batches(size, size)
    net, right = DistributedDataParallel(model()), model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with net.join():
        for batch in every_batch[: rank + 1, rank]:
            optimizer.zero_grad()
            net(batch).pow(2).mean().backward()
            optimizer.step()
    optimizer = torch.optim.SGD(right.parameters(), lr=0.1)
    for step in range(size):
        optimizer.zero_grad()
        for batch in every_batch[step, step:]:
            (right(batch).pow(2).mean() / size).backward()
        optimizer.step()
    same(net.parameters(), [parameter.detach() for parameter in right.parameters()])


def ddp_compiled(rank: int) -> None:
    """The compiler looks at what DDP calls, too, and leaves it as it is."""
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    size = dist.get_world_size()
    net = torch.compile(DistributedDataParallel(model()), backend="aot_eager")
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for batch in batches(3, size)[:, rank]:
        optimizer.zero_grad()
        net(batch).pow(2).mean().backward()
        optimizer.step()
    same(net.parameters(), alone(size, 3))


def ddp_with_power_sgd(rank: int) -> None:
    """Whose hook waits for one reduction in the callback of another."""
    import torch
    import torch.distributed as dist
    from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as power_sgd
    from torch.nn.parallel import DistributedDataParallel

    torch.manual_seed(0)
    layers = torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10)
    net = DistributedDataParallel(torch.nn.Sequential(*layers), bucket_cap_mb=0.01)
    state = power_sgd.PowerSGDState(None, matrix_approximation_rank=1, start_powerSGD_iter=2)
    net.register_comm_hook(state, power_sgd.powerSGD_hook)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    torch.manual_seed(1 + rank)
    x, losses = torch.randn(32, 64), []
    for _ in range(8):
        optimizer.zero_grad()
        loss = net(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert state.iter > 2, "nothing was compressed"
    assert losses[-1] < losses[0]
    weights = torch.cat([parameter.detach().flatten() for parameter in net.parameters()])
    dist.all_reduce(smallest := weights.clone(), dist.ReduceOp.MIN)
    assert torch.equal(smallest, weights)


def fsdp2(rank: int, how: str) -> None:
    """Parameters that stay after forward, that are gathered again for backward, and that are bfloat16 meanwhile."""
    import torch
    import torch.distributed as dist
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    size = dist.get_world_size()
    net = model()
    options: dict[str, Any] = {"mesh": dist.init_device_mesh("cpu", (size,)), "reshard_after_forward": how != "kept"}
    if how == "mixed":
        options["mp_policy"] = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for layer in (net[0], net[2]):
        fully_shard(layer, **options)
    fully_shard(net, **options)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for batch in batches(3, size)[:, rank]:
        optimizer.zero_grad()
        net(batch).pow(2).mean().backward()
        optimizer.step()
    same([parameter.full_tensor() for parameter in net.parameters()], alone(size, 3), 1e-2 if how == "mixed" else 1e-6)


def tensor_parallel(rank: int) -> None:
    import torch
    import torch.distributed as dist
    from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    mesh = dist.init_device_mesh("cpu", (dist.get_world_size(),))
    whole = torch.arange(24.0).reshape(6, 4)
    sharded = distribute_tensor(whole, mesh, [Shard(0)])
    assert torch.equal(sharded.redistribute(mesh, [Shard(1)]).full_tensor(), whole)
    assert torch.equal((sharded @ sharded.redistribute(mesh, [Replicate()]).t()).full_tensor(), whole @ whole.t())
    net, right = model(), model()
    parallelize_module(net, mesh, {"2": ColwiseParallel(), "3": RowwiseParallel()})
    x = batches(1, 1)[0, 0]
    net(x).sum().backward()
    right(x).sum().backward()
    for mine, theirs in zip(net.parameters(), right.parameters(), strict=True):
        grad = mine.grad.full_tensor() if isinstance(mine.grad, DTensor) else mine.grad
        assert torch.allclose(grad, theirs.grad, atol=1e-5)


def pipeline(rank: int, how: str) -> None:
    import torch
    import torch.distributed as dist
    from torch.distributed import pipelining
    from torch.distributed.pipelining import PipelineStage

    size = dist.get_world_size()
    net = model()
    cut = [net[:2], net[2:]] if size == 2 else [net[:1], net[1:3], net[3:]]
    stage = PipelineStage(cut[rank], rank, size, torch.device("cpu"))
    schedule = getattr(pipelining, how)(stage, 4, loss_fn=lambda y, target: (y - target).pow(2).mean())
    x, target = batches(1, 1)[0, 0], torch.ones(8, 4)
    result = schedule.step(x) if rank == 0 else schedule.step(target=target) if rank == size - 1 else schedule.step()
    right = model()
    y = right(x)
    sum((a - b).pow(2).mean() for a, b in zip(y.chunk(4), target.chunk(4), strict=True)).div(4).backward()
    if rank == size - 1:
        assert torch.allclose(result, y, atol=1e-5)
    mine = {name: p.grad for name, p in net.named_parameters() if p.grad is not None}
    assert mine
    for name, theirs in right.named_parameters():
        if name in mine:
            assert torch.allclose(mine[name], theirs.grad, atol=1e-5), name


def checkpoint(rank: int, folder: str) -> None:
    import torch
    import torch.distributed as dist
    import torch.distributed.checkpoint as dcp
    from torch.distributed.tensor import Shard, distribute_tensor

    mesh = dist.init_device_mesh("cpu", (dist.get_world_size(),))
    whole = torch.arange(20.0).reshape(10, 2)
    dcp.save({"x": distribute_tensor(whole, mesh, [Shard(0)]), "step": 5}, checkpoint_id=folder)
    state = {"x": distribute_tensor(torch.zeros(10, 2), mesh, [Shard(1)]), "step": 0}
    dcp.load(state, checkpoint_id=folder)
    assert torch.equal(state["x"].full_tensor(), whole)
    assert state["step"] == 5
