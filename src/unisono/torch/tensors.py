"""Tensors as the arrays that a communicator takes: the same memory, where that can be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from ..errors import ConfigError

_OF_NUMPY = frozenset(
    (torch.float32, torch.float64, torch.float16, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8,
     torch.bool, torch.uint16, torch.uint32, torch.uint64)
)  # fmt: skip
_BY_SIZE = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def array(tensor: Tensor) -> Any:
    """The elements of a contiguous tensor. What NumPy does not have stays a tensor, which the communicator knows, too,
    but never makes a known call of."""
    if tensor.requires_grad:
        tensor = tensor.detach()
    if tensor.dtype in _OF_NUMPY and tensor.device.type == "cpu":
        return tensor.numpy()
    return torch.view_as_real(tensor).numpy() if tensor.is_complex() else tensor


def cargo(tensor: Tensor) -> Any:
    """The elements of a contiguous tensor in one dimension, to be moved, whatever they are."""
    if tensor.dtype not in _OF_NUMPY:
        tensor = tensor.detach()
        tensor = torch.view_as_real(tensor) if tensor.is_complex() else tensor.view(_BY_SIZE[tensor.itemsize])
    return array(tensor).reshape(-1)


def contiguous(tensor: Tensor) -> Tensor:
    """The same elements in the order of their indices."""
    require_dense([tensor])
    return tensor.contiguous()


def require_dense(tensors: Sequence[Tensor]) -> None:
    for tensor in tensors:
        if tensor.layout is not torch.strided:
            raise ConfigError(
                f"unisono communicates dense tensors, and not one of layout {tensor.layout}: use to_dense(). Of "
                "sparse_coo tensors it makes sums, by all_reduce"
            )


def to_fill(tensor: Tensor) -> tuple[Tensor, Callable[[], None] | None]:
    """Contiguous memory to fill in the place of a tensor, with what is in there, and what to do afterwards."""
    require_dense([tensor])
    if tensor.is_contiguous():
        return tensor, None
    dense = tensor.detach().contiguous()
    return dense, lambda: _fill([tensor], [dense])


def joined(tensors: Sequence[Tensor]) -> Tensor:
    """All elements, one tensor after the other, in one dimension."""
    require_dense(tensors)
    if len(tensors) == 1:
        return tensors[0].detach().reshape(-1)
    return torch.cat([tensor.detach().reshape(-1) for tensor in tensors])


def apart(tensors: Sequence[Tensor]) -> tuple[Tensor, Callable[[], None]]:
    """Room for all elements of these, one tensor after the other, and what to do when it is filled."""
    require_dense(tensors)
    room = torch.empty(sum(tensor.numel() for tensor in tensors), dtype=tensors[0].dtype)
    parts = room.split([tensor.numel() for tensor in tensors])
    return room, lambda: _fill(tensors, parts)


def _fill(tensors: Sequence[Tensor], parts: Sequence[Tensor]) -> None:
    with torch.no_grad():
        for tensor, part in zip(tensors, parts, strict=True):
            tensor.detach().copy_(part.view(tensor.shape))
