"""Allreduce of sparse tensors: everybody gets everybody's elements, and sums those at the same place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..comm.communicator import Communicator
from ..comm.handle import Handle
from ..errors import ConfigError, MismatchError

LONGEST_DESCRIPTION = 256


def start(comm: Communicator, tensor: Tensor, op: Any, **options: Any) -> tuple[list[Handle], Callable[[], None]]:
    """The calls that were started, and what to do when they are through."""
    if op != "sum":
        raise ConfigError(f"an allreduce of sparse tensors is a sum, not {op}")
    own = tensor.detach().coalesce()
    places, values = own.indices().t().contiguous(), own.values().contiguous()
    handles = [
        comm.start("allgather", _description(tensor), **options),
        comm.start("allgatherv", places.view(-1).numpy(), **options),
        comm.start("allgatherv", values.view(-1).view(torch.uint8).numpy(), **options),  # of any type
    ]

    def finish() -> None:
        descriptions, every_place, every_value = (handle.wait() for handle in handles)
        _require_same(descriptions)
        result = torch.sparse_coo_tensor(
            torch.from_numpy(every_place).view(-1, tensor.sparse_dim()).t(),
            torch.from_numpy(every_value).view(tensor.dtype).view(-1, *values.shape[1:]),
            tensor.shape,
        )
        with torch.no_grad():
            tensor.copy_(result.coalesce())  # not of tensor.detach(): that has places and values of its own

    return handles, finish


def _description(tensor: Tensor) -> Any:
    text = f"{tensor.dtype} {tuple(tensor.shape)}, {tensor.sparse_dim()} dimensions sparse"
    return np.frombuffer(text.encode()[:LONGEST_DESCRIPTION].ljust(LONGEST_DESCRIPTION), np.uint8)


def _require_same(descriptions: Any) -> None:
    texts = [row.tobytes().decode().strip() for row in descriptions]
    for rank, text in enumerate(texts):
        if text != texts[0]:
            error = MismatchError(
                f"the ranks reduce different sparse tensors: {texts[0]} on rank 0, and {text} on rank {rank}"
            )
            error.ranks = (rank,)
            raise error
