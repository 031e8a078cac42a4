"""A rank that ends in the middle of everything, and destroys nothing."""

import torch
import torch.distributed as dist
from torch.distributed._functional_collectives import all_reduce

dist.init_process_group("unisono")
right = (dist.get_rank() + 1) % dist.get_world_size()
part = dist.new_group([0, 1])
dist.all_reduce(torch.ones(1), async_op=True).get_future()
dist.all_reduce(torch.ones(1), group=part)
all_reduce(torch.ones(1), "sum", dist.group.WORLD)  # torch warns of what nobody has waited for
dist.isend(torch.ones(1), right)
dist.irecv(torch.ones(1), right)
