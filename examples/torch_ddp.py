"""DistributedDataParallel, with one word changed: the backend.

torchrun --standalone --nproc-per-node 2 examples/torch_ddp.py
unisono run -n 2 examples/torch_ddp.py
torchrun --standalone --nproc-per-node 2 examples/torch_ddp.py --backend gloo    # to compare
"""

import argparse
import os
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

parser = argparse.ArgumentParser()
parser.add_argument("--backend", default="unisono")
parser.add_argument("--steps", type=int, default=20)
options, _ = parser.parse_known_args()

if {"RANK", "UNISONO_RANK"} & set(os.environ):
    dist.init_process_group(options.backend)
else:  # nobody has launched us: a job of one rank
    dist.init_process_group(options.backend, store=dist.HashStore(), rank=0, world_size=1)
rank, size = dist.get_rank(), dist.get_world_size()

torch.manual_seed(0)
model = DistributedDataParallel(
    torch.nn.Sequential(torch.nn.Linear(256, 2048), torch.nn.ReLU(), torch.nn.Linear(2048, 256))
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data = torch.Generator().manual_seed(rank)  # every rank has other data

begun = time.perf_counter()
for step in range(options.steps):
    x = torch.randn(16, 256, generator=data)
    loss = (model(x) - x).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if rank == 0 and step % 5 == 0:
        print(f"step {step}: loss {loss.item():.4f}")
seconds = time.perf_counter() - begun

own = torch.cat([parameter.detach().ravel() for parameter in model.parameters()])
first = own.clone()
dist.broadcast(first, 0)
equal = torch.tensor([torch.equal(own, first)], dtype=torch.int32)
dist.all_reduce(equal, dist.ReduceOp.MIN)
if rank == 0:
    assert equal.item(), "the ranks have drifted apart"
    print(f"all ranks have the same model; {seconds / options.steps * 1000:.1f} ms a step on {options.backend}")
dist.destroy_process_group()
