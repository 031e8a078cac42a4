"""What one rank of benchmarks/training.py does: contestants take a step each, in turns, and the slowest rank counts."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from time import perf_counter, sleep
from typing import Any

import numpy as np

import unisono
from unisono.train import GradientSync

MB = 1 << 20
Times = dict[str, list[float]]


def slowest(comm: unisono.Communicator, work: Callable[[], object]) -> float:
    comm.barrier()
    began = perf_counter()
    work()
    return float(comm.allreduce(np.array([perf_counter() - began]), op="max")[0])


def in_turns(comm: unisono.Communicator, contestants: dict[str, Callable[[], object]], rounds: int) -> Times:
    """Seconds of each, round by round; whoever begins a round is last in the next one."""
    names = list(contestants)
    for name in names * 3:  # buckets are made anew after the first step
        contestants[name]()
    times: Times = {name: [] for name in names}
    for _ in range(rounds):
        for name in names:
            times[name].append(slowest(comm, contestants[name]))
        names.append(names.pop(0))
    return times


def join_torch(comm: unisono.Communicator) -> dict[str, Any]:
    """A group of each backend, by its name."""
    import torch
    import torch.distributed as dist

    import unisono.torch  # noqa: F401  (says what is missing)

    torch.set_num_threads(1)
    port = np.zeros(1, np.int64)
    if comm.rank == 0:
        with socket.create_server(("", 0)) as free:
            port[0] = free.getsockname()[1]
    comm.broadcast(port)
    meeting = f"tcp://{comm.hosts[0] if len(set(comm.hosts)) > 1 else '127.0.0.1'}:{port[0]}"
    dist.init_process_group("gloo", init_method=meeting, rank=comm.rank, world_size=comm.size)
    return {name: dist.new_group(backend=name) for name in ("gloo", "unisono")}


def transformer() -> tuple[Any, Any]:
    """Embedding, encoder blocks and head; rows of tokens."""
    from torch import nn, randint

    width = 384
    block = partial(nn.TransformerEncoderLayer, width, 6, 4 * width, dropout=0.0, batch_first=True)
    model = nn.Sequential(nn.Embedding(8000, width), *(block() for _ in range(5)), nn.Linear(width, 512))
    return model, randint(0, 8000, (2, 24))


def vgg() -> tuple[Any, Any]:
    """Convolutions that compute, and dense layers that have the parameters; images."""
    from torch import nn, randn

    def stage(a: int, b: int) -> list[Any]:
        return [nn.Conv2d(a, b, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]

    dense = [nn.Flatten(), nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 10)]
    return nn.Sequential(*stage(3, 32), *stage(32, 64), *stage(64, 128), *dense), randn(8, 3, 32, 32)


def train_step(wrapped: Any, inputs: Any, context: Any = nullcontext) -> None:
    wrapped.zero_grad()
    with context():
        wrapped(inputs).square().mean().backward()


def wrapped_models(comm: unisono.Communicator, make: Callable[[], tuple[Any, Any]]) -> dict[str, tuple[Any, Any]]:
    """DDP on each backend, and DataParallel."""
    from torch import manual_seed
    from torch.nn.parallel import DistributedDataParallel

    from unisono.train import DataParallel

    found: dict[str, tuple[Any, Any]] = {}
    for name, group in join_torch(comm).items():
        manual_seed(0)
        model, inputs = make()
        found[f"DDP on {name}"] = DistributedDataParallel(model, process_group=group), inputs
    manual_seed(0)
    model, inputs = make()
    return found | {"DataParallel": (DataParallel(model, comm), inputs)}


def models(comm: unisono.Communicator, rounds: int, make: Callable[[], tuple[Any, Any]]) -> Times:
    wrapped = wrapped_models(comm, make)
    steps: dict[str, Callable[[], object]] = {name: partial(train_step, *each) for name, each in wrapped.items()}
    ddp, inputs = wrapped["DDP on gloo"]
    steps["without communication"] = partial(train_step, ddp, inputs, ddp.no_sync)
    found = in_turns(comm, steps, rounds)
    report(comm, wrapped["DataParallel"][0].report())
    return found


def gradient_list(comm: unisono.Communicator, rounds: int) -> Times:
    """The sizes of ResNet-50's gradients, each averaged by a call that goes on by itself."""
    import torch
    import torch.distributed as dist

    groups = join_torch(comm)
    stages = ((64, 64, 3), (256, 128, 4), (512, 256, 6), (1024, 512, 3))
    shapes = [(7, 7, 3, 64)]
    for wide, narrow, blocks in stages:
        for _ in range(blocks):
            shapes += [
                (wide, narrow),
                (narrow,),
                (3, 3, narrow, narrow),
                (narrow,),
                (narrow, 4 * narrow),
                (4 * narrow,),
            ]
    shapes.append((2048, 1000))
    tensors = [torch.ones(shape) for shape in shapes]
    arrays = {f"gradient {number}": tensor.numpy() for number, tensor in enumerate(tensors)}

    def by_calls(group: Any) -> None:
        for work in [dist.all_reduce(tensor, group=group, async_op=True) for tensor in tensors]:
            work.wait()

    def by_buckets(sync: GradientSync) -> None:
        for name in reversed(arrays):
            sync.ready(name, arrays[name])
        sync.wait()

    calls: dict[str, Callable[[], object]] = {name: partial(by_calls, group) for name, group in groups.items()}
    sync = GradientSync(arrays, comm)
    return in_turns(comm, calls | {"GradientSync": partial(by_buckets, sync)}, rounds)


def sharded(comm: unisono.Communicator, rounds: int) -> Times:
    """FSDP2 on each backend, parameters gathered again for backward."""
    from torch import manual_seed, nn, randn
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.fsdp import fully_shard

    steps: dict[str, Callable[[], object]] = {}
    for name, group in join_torch(comm).items():
        manual_seed(0)
        model = nn.Sequential(*(nn.Linear(1024, 1024) for _ in range(6)))
        mesh = DeviceMesh.from_group(group, "cpu")
        for layer in model:
            fully_shard(layer, mesh=mesh, reshard_after_forward=True)
        fully_shard(model, mesh=mesh, reshard_after_forward=True)
        steps[f"FSDP2 on {name}"] = partial(train_step, model, randn(8, 1024))
    return in_turns(comm, steps, rounds)


def overlap(comm: unisono.Communicator, rounds: int) -> dict[str, dict[str, list[float]]]:
    """24 MiB of gradients; computing a layer sleeps, or multiplies matrices."""
    layers = {f"layer {number}": np.ones(MB // 4, np.float32) for number in range(24)}
    x, weights = np.ones((256, 1024), np.float32), np.full((1024, 1024), 1 / 1024, np.float32)
    with GradientSync(layers, comm) as sync:
        take_steps(sync, layers, lambda: None, 3)
        alone = float(np.median([step.communication for step in list(sync.times.steps)[1:]]))
        each = comm.allreduce([1.05 * alone / len(layers)], op="max")[0]
        kinds: dict[str, Callable[[], object]] = {
            "sleep": lambda: sleep(each),
            "matrix products": lambda: np.matmul(x, weights, out=x),
        }
        found = {}
        for name, compute in kinds.items():
            take_steps(sync, layers, compute, rounds)
            steps = list(sync.times.steps)[-rounds:]
            found[name] = {
                "compute": [step.compute for step in steps],
                "communication": [step.communication for step in steps],
                "exposed": [step.exposed for step in steps],
            }
        report(comm, sync.report())
        return found


def take_steps(sync: GradientSync, layers: dict[str, Any], compute: Callable[[], object], steps: int) -> None:
    for _ in range(steps):
        sync.comm.barrier()
        sync.begin()
        for name in reversed(layers):
            compute()
            sync.ready(name, layers[name])
        sync.wait()


def report(comm: unisono.Communicator, text: object) -> None:
    if comm.rank == 0:
        print("REPORT " + json.dumps(str(text)), flush=True)


PARTS: dict[str, Callable[[unisono.Communicator, int], Any]] = {
    "transformer": partial(models, make=transformer),
    "vgg": partial(models, make=vgg),
    "gradients": gradient_list,
    "fsdp": sharded,
    "overlap": overlap,
}


def main(part: str, rounds: str) -> None:
    with unisono.init() as comm:
        found = PARTS[part](comm, int(rounds))
        if comm.rank == 0:
            print("FOUND " + json.dumps(found), flush=True)
        comm.barrier()
        dist = sys.modules.get("torch.distributed")
        if dist is not None and dist.is_initialized():
            dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
