"""unisono as a backend of torch.distributed: ``dist.init_process_group("unisono")``.

Where torch finds our entry point (`unisono/autoload.py`), nothing has to be imported by hand.

registration  what torch is told
launched      `init_process_group` under `unisono run`, where no torchrun has set its variables
meeting       a communicator of the ranks that a store of torch's knows
group         the process group: what torch asks for
collectives   what all ranks call together
tensors       tensors as the arrays that a communicator takes
operators     torch's reductions by our names
pages         large pages for tensors that are reduced again and again
work          calls under way, and their futures
sparse        allreduce of sparse tensors
post          messages between two ranks, in any order, with tags; letter, sorting and wire are parts of it
monitored     the barrier that names who did not come
"""

from importlib.util import find_spec

from ..errors import ConfigError

if not find_spec("torch"):
    raise ConfigError("unisono.torch is a backend of torch, which is not installed: pip install 'unisono[torch]'")

from .registration import register

register()
