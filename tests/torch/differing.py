"""Ranks that agree on one call, and not on the next."""

import torch
import torch.distributed as dist

from unisono.errors import MismatchError

dist.init_process_group("unisono")
dist.all_reduce(torch.ones(1000))
dist.broadcast(torch.ones(100_000), 1)
try:
    dist.all_reduce(torch.ones(10 + dist.get_rank()))
except MismatchError as error:
    print("differed" if "differing.py" in str(error) else error)
dist.destroy_process_group()
