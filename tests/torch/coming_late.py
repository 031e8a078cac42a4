"""Rank 0 comes to the group when the other one has waited for a while."""

import os
import time

import torch.distributed as dist

if os.environ["RANK"] == "0":
    time.sleep(1.5)
dist.init_process_group("unisono")
dist.barrier()
dist.destroy_process_group()
