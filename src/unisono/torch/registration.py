"""What torch is told about us."""

from __future__ import annotations

import os
import re
from typing import Any

import torch
import torch.distributed as dist

from ..comm.sites import pass_over
from ..errors import ConfigError
from .launched import know_our_launcher
from .monitored import extend_monitored_barrier

NAME = "unisono"
OLDEST = (2, 13)


def register() -> None:
    """Make ``"unisono"`` a backend of torch.distributed for tensors in the memory of the CPU; may be called twice."""
    require_torch(torch.__version__)
    if not dist.is_available():
        raise ConfigError(
            f"this torch {torch.__version__} was built without torch.distributed; install one that has it"
        )
    if NAME in dist.Backend.backend_list:
        return
    dist.Backend.register_backend(NAME, _create, extended_api=True, devices=["cpu"])
    pass_over(os.path.dirname(torch.__file__))
    know_our_launcher()
    extend_monitored_barrier()


def require_torch(version: str) -> None:
    """ConfigError if this torch is too old."""
    found = re.match(r"(\d+)\.(\d+)", version)
    if found and tuple(map(int, found.groups())) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise ConfigError(
            f"the backend unisono needs torch {oldest} or newer, and this is torch {version}: "
            f"pip install 'torch>={oldest}'"
        )


def _create(options: Any, backend_options: Any) -> Any:
    from .group import Group  # with all that it needs, when it is needed

    return Group.meet(options)
