"""Calls of all ranks."""

from __future__ import annotations

from typing import Any

from tests.torch.programs.raised import raised


def every_one(rank: int) -> None:
    """Each with what it has to give."""
    import torch
    import torch.distributed as dist

    size = dist.get_world_size()
    ramp = torch.arange(6.0).reshape(2, 3)
    total = sum(range(1, size + 1))
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.uint8):
        x = (ramp * (rank + 1)).to(dtype)
        dist.all_reduce(x)
        assert torch.equal(x, (ramp * total).to(dtype)), dtype
        dist.broadcast(y := torch.full((3,), rank).to(dtype), size - 1)
        assert torch.equal(y, torch.full((3,), size - 1).to(dtype))
        everybody = [torch.empty(2, 3, dtype=dtype) for _ in range(size)]
        dist.all_gather(everybody, (ramp + rank).to(dtype))
        assert all(torch.equal(x, (ramp + r).to(dtype)) for r, x in enumerate(everybody))
    x = torch.full((4,), float(rank + 1))
    dist.all_reduce(x, dist.ReduceOp.AVG)
    assert torch.allclose(x, torch.full((4,), total / size))
    x = torch.full((4,), float(rank + 1))
    dist.all_reduce(x, dist._make_nccl_premul_sum(0.5))
    assert torch.equal(x, torch.full((4,), total / 2))
    x = torch.full((2 * size,), rank + 1.0)
    dist.reduce_scatter_single(part := torch.empty(2), x)
    assert torch.equal(part, torch.full((2,), float(total)))
    dist.all_gather_single(whole := torch.empty(2 * size), part + rank)
    assert torch.equal(whole, torch.cat([part + r for r in range(size)]))
    _, mine = dist.reduce(z := torch.tensor([rank + 1]), 0), z
    assert rank or mine.item() == total
    dist.scatter(x := torch.empty(2), [torch.full((2,), float(r)) for r in range(size)] if rank == 0 else None)
    assert torch.equal(x, torch.full((2,), float(rank)))
    dist.gather(x, seen := [torch.empty(2) for _ in range(size)] if rank == 1 else None, 1)
    assert rank != 1 or torch.equal(torch.stack(seen)[:, 0], torch.arange(float(size)))
    sent = [torch.full((rank + 1,), r) for r in range(size)]
    dist.all_to_all(got := [torch.empty(r + 1, dtype=torch.int64) for r in range(size)], sent)
    assert all((x == rank).all() for x in got)
    splits, sent_rows = list(range(1, size + 1)), torch.full((size * (rank + 1), 2), float(rank))
    dist.all_to_all_single(got := torch.empty(total, 2), sent_rows, splits, [rank + 1] * size)
    assert torch.equal(got[:, 0], torch.cat([torch.full((r + 1,), float(r)) for r in range(size)]))
    objects: list[Any] = [None] * size
    dist.all_gather_object(objects, {"rank": rank})
    assert objects == [{"rank": r} for r in range(size)]
    dist.barrier()


def parts_equal_on_one_rank_only(rank: int) -> None:
    """All ranks exchange two elements with each other; the last one has five for itself."""
    import torch
    import torch.distributed as dist

    size = dist.get_world_size()
    sizes = [[2] * size for _ in range(size)]
    sizes[-1][-1] = 5
    arriving = [row[rank] for row in sizes]
    sent = torch.full((sum(sizes[rank]),), float(rank))
    right = torch.cat([torch.full((count,), float(source)) for source, count in enumerate(arriving)])
    dist.all_to_all_single(got := torch.empty(sum(arriving)), sent, arriving, sizes[rank])
    assert torch.equal(got, right)
    dist.all_to_all(parts := [torch.empty(count) for count in arriving], list(sent.split(sizes[rank])))
    assert torch.equal(torch.cat(parts), right)


def unusual_tensors(rank: int) -> None:
    """Not contiguous, empty, complex, sparse, with gradients, of one element."""
    import torch
    import torch.distributed as dist

    size = dist.get_world_size()
    wide = torch.arange(12.0).reshape(3, 4)
    dist.all_reduce(column := (wide * (rank + 1)).t()[1:3])
    assert torch.equal(column, wide.t()[1:3] * sum(range(1, size + 1)))
    dist.all_reduce(image := torch.ones(2, 3, 4, 5).to(memory_format=torch.channels_last))
    assert (image == size).all()
    dist.all_reduce(torch.empty(0, 3))
    dist.all_gather([torch.empty(0) for _ in range(size)], torch.empty(0))
    z = torch.full((3,), complex(rank, 1))
    dist.all_reduce(z)
    assert torch.equal(z, torch.full((3,), complex(sum(range(size)), size)))
    parameter = torch.nn.Parameter(torch.full((2,), float(rank)))
    dist.broadcast(parameter.data, 0)
    with torch.no_grad():
        dist.all_reduce(parameter)
    assert parameter.tolist() == [0, 0]
    dist.all_reduce(number := torch.tensor(rank))
    assert number.item() == sum(range(size))
    thin = torch.sparse_coo_tensor([[rank, 2]], [1.0, 2.0], (5,))
    dist.all_reduce(thin)
    assert thin.to_dense().tolist()[2] == (2.0 * size + (1.0 if size > 2 else 0.0))
    bits = torch.tensor([rank % 2 == 0, True])
    dist.all_reduce(bits, dist.ReduceOp.MIN)
    assert bits.tolist() == [size == 1, True]


def complex_tensors(rank: int) -> None:
    """They have sums and averages; what is not defined for them is refused, rather than made of their parts."""
    import torch
    import torch.distributed as dist

    size = dist.get_world_size()
    total = complex(sum(range(size)), size)
    for op, right in (
        (dist.ReduceOp.SUM, total),
        (dist.ReduceOp.AVG, total / size),
        (dist._make_nccl_premul_sum(2.0), total * 2),
    ):
        dist.reduce(x := torch.full((3,), complex(rank, 1)), 0, op)
        assert rank or torch.allclose(x, torch.full((3,), right))
        dist.reduce_scatter_single(
            x := torch.zeros(3, dtype=torch.complex64), torch.full((3 * size,), complex(rank, 1)), op
        )
        assert torch.allclose(x, torch.full((3,), right))
    x, parts = torch.full((3,), 1j), [torch.full((3,), 1j) for _ in range(size)]
    for name, op in (("prod", dist.ReduceOp.PRODUCT), ("min", dist.ReduceOp.MIN), ("max", dist.ReduceOp.MAX)):
        for call in (
            lambda op: dist.reduce(x, 0, op),
            lambda op: dist.reduce_scatter(x, parts, op),
            lambda op: dist.reduce_scatter_single(x, torch.cat(parts), op),
            lambda op: dist.group.WORLD.allreduce([x], _allreduce_by(op)),
        ):
            with raised("ConfigError", f"{name} is not defined for elements of type torch.complex64"):
                call(op)
    assert torch.equal(x, torch.full((3,), 1j))
    dist.barrier()


def _allreduce_by(op: Any) -> Any:
    import torch.distributed as dist

    options = dist.AllreduceOptions()
    options.reduceOp = op
    return options


def several_as_one(rank: int) -> None:
    """Calls on lists of tensors, and calls that torch collects."""
    import torch
    import torch.distributed as dist

    size = dist.get_world_size()
    total = float(sum(range(size)))

    def mine() -> list[Any]:
        return [torch.full((n,), float(rank)) for n in (2, 30_000)]

    with dist._coalescing_manager(async_ops=True) as calls:
        for x in (reduced := mine()):
            dist.all_reduce(x)
    calls.wait()
    assert all((x == total).all() for x in reduced)
    whole = [torch.empty(size * x.numel()) for x in mine()]
    with dist._coalescing_manager():
        for out, x in zip(whole, mine(), strict=True):
            dist.all_gather_single(out, x)
    assert all(torch.equal(out, torch.arange(float(size)).repeat_interleave(len(out) // size)) for out in whole)
    parts = mine()
    with dist._coalescing_manager():
        for out, x in zip(parts, mine(), strict=True):
            dist.reduce_scatter_single(out, x.repeat(size))
    assert all((out == total).all() for out in parts)
    group = dist.group.WORLD
    group.all_gather_single_coalesced(whole := [torch.empty(size * x.numel()) for x in mine()], mine()).wait()
    assert all(torch.equal(out, torch.arange(float(size)).repeat_interleave(len(out) // size)) for out in whole)
    group.reduce_scatter_single_coalesced(parts := mine(), [x.repeat(size) for x in mine()]).wait()
    assert all((out == total).all() for out in parts)


def sparse_tensors(rank: int) -> None:
    """Of all types; those that differ are told apart; a call's own time-out holds."""
    from datetime import timedelta

    import torch
    import torch.distributed as dist
    from torch.distributed.distributed_c10d import _get_default_store

    size, store = dist.get_world_size(), _get_default_store()
    for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.int64):
        rows = torch.sparse_coo_tensor([[rank, size]], torch.ones(2, 3).to(dtype), (size + 1, 3))
        dist.all_reduce(rows)
        right = torch.ones(size + 1, 3)
        right[size] = size
        assert torch.equal(rows.to_dense(), right.to(dtype))
    thin = [torch.sparse_coo_tensor([[rank]], [float(n)], (size,)) for n in (1, 2)]
    dist.all_reduce_coalesced([*thin, dense := torch.ones(3)])
    assert [x.to_dense().tolist() for x in thin] == [[1.0] * size, [2.0] * size]
    assert dense.tolist() == [float(size)] * 3
    with raised("ConfigError", "sparse_csr", "to_dense()"):
        dist.all_reduce(torch.eye(3).to_sparse_csr())
    with raised("ConfigError", "sparse_csr", "to_dense()"):
        dist.all_reduce_coalesced([torch.ones(2), torch.eye(3).to_sparse_csr()])
    with raised("ConfigError", "sparse_coo", "to_dense()"):
        dist.broadcast(thin[0], 0)
    with raised("MismatchError", "float32 (5,)", "float32 (6,)", "on rank 1"):
        dist.all_reduce(torch.sparse_coo_tensor([[0]], [1.0], (5 + min(rank, 1),)))
    dist.barrier()
    if rank == 0:
        options = dist.AllreduceOptions()
        options.timeout = timedelta(seconds=0.3)
        with raised("DeadlineExceeded"):
            dist.group.WORLD.allreduce([torch.sparse_coo_tensor([[0]], [1.0], (5,))], options).wait()
        store.set("told", "")
    else:
        store.wait(["told"], timedelta(seconds=60))  # who leaves is not late


def float8(rank: int) -> None:
    """Moved by all calls that only move, and not reduced."""
    import torch
    import torch.distributed as dist

    size = dist.get_world_size()
    for dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
        ramp = torch.arange(6.0)
        dist.broadcast(x := (ramp + rank).to(dtype), 0)
        assert torch.equal(x.float(), ramp)
        dist.all_gather(everybody := [torch.zeros(6).to(dtype) for _ in range(size)], (ramp + rank).to(dtype))
        assert all(torch.equal(x.float(), ramp + r) for r, x in enumerate(everybody))
        whole = torch.zeros(6 * size).to(dtype)
        dist.all_gather_single(whole, (ramp + rank).to(dtype))
        assert torch.equal(whole.float(), torch.cat([ramp + r for r in range(size)]))
        sent = torch.full((2 * size,), float(rank)).to(dtype)
        dist.all_to_all_single(got := torch.zeros(2 * size).to(dtype), sent)
        assert torch.equal(got.float(), torch.arange(float(size)).repeat_interleave(2))
        right, left = (rank + 1) % size, (rank - 1) % size
        work = dist.isend((ramp + rank).to(dtype), right)
        dist.recv(y := torch.zeros(6).to(dtype), left)
        work.wait()
        assert torch.equal(y.float(), ramp + left)
        with raised("ConfigError", "float8"):
            dist.all_reduce(ramp.to(dtype))
    dist.barrier()


def many_at_once(rank: int) -> None:
    """Works and futures, waited for in another order; groups that do not wait for each other."""
    import torch
    import torch.distributed as dist

    size = dist.get_world_size()
    tensors = [torch.full((n,), float(rank)) for n in (1, 1000, 100_000, 3)]
    works = [dist.all_reduce(x, async_op=True) for x in tensors]
    futures = [work.get_future() for work in works[1:]]
    doubled = futures[0].then(lambda future: future.value()[0] * 2)
    nested = futures[1].then(lambda _: dist.all_reduce(torch.ones(1), async_op=True).get_future().wait()[0].item())
    assert nested.wait() == size, "a callback may wait for a future of the same group"
    for work in reversed(works):
        assert work.wait()
        assert work.is_completed()
    for x in tensors:
        assert (x == sum(range(size))).all()
    assert futures[2].wait()[0] is tensors[3]
    assert (doubled.wait() == 2 * sum(range(size))).all()
    pairs = [dist.new_group([a, (a + 1) % size]) for a in range(size)]
    own, left = pairs[rank], pairs[(rank - 1) % size]
    a, b = torch.ones(1), torch.ones(1)
    order = [(a, own), (b, left)] if rank % 2 else [(b, left), (a, own)]
    for work in [dist.all_reduce(x, group=group, async_op=True) for x, group in order]:
        work.wait()
    assert a.item() == b.item() == min(2, size)
    mesh = dist.init_device_mesh("cpu", (2, size // 2))
    dist.all_reduce(x := torch.ones(1), group=mesh.get_group(0))
    assert x.item() == 2
