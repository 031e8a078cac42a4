"""What all ranks begin with: the parameters and buffers of rank 0."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from ..errors import ConfigError
from .layout import dtype_name

if TYPE_CHECKING:
    from ..comm.communicator import Communicator

Fact = tuple[str, Any, tuple[int, ...]]
"""Name, element type and shape of a tensor."""


def facts_of(tensors: Mapping[str, Any]) -> list[Fact]:
    return [(name, tensor.dtype, tensor.shape) for name, tensor in tensors.items()]


def described(facts: Sequence[Fact], kind: str) -> dict[str, str]:
    """For those who compare them with other ranks'."""
    return {f"{kind} {name}": f"{dtype_name(dtype)} {tuple(shape)}" for name, dtype, shape in facts}


def require_movable(tensors: Mapping[str, Any], kind: str) -> None:
    for name, tensor in tensors.items():
        if tensor.device.type != "cpu" or tensor.layout is not torch.strided or tensor.is_quantized:
            raise ConfigError(
                f"{kind} {name} is {tensor.type()} on device {tensor.device}: what the ranks begin with is dense, and "
                "in the memory of the CPU"
            )


def broadcast_state(comm: Communicator, tensors: Mapping[str, Any], facts: Sequence[Fact]) -> None:
    """Fill tensors with those of rank 0, whatever their types, by one call of the bytes that the facts say.

    A tensor that is not as they say is left as it is.
    """
    by_size = sorted(facts, key=lambda fact: -fact[1].itemsize)  # so that each one is aligned
    fitting = [_fitting(tensors.get(fact[0]), fact) for fact in by_size]
    if not any(tensor.numel() for tensor in fitting):
        return
    flat = torch.cat([tensor.reshape(-1).view(torch.uint8) for tensor in fitting])
    comm.broadcast(flat.numpy())
    if comm.rank == 0:
        return
    for tensor, part in zip(fitting, flat.split([tensor.nbytes for tensor in fitting]), strict=True):
        tensor.copy_(part.view(tensor.dtype).view(tensor.shape))


def _fitting(tensor: Any, fact: Fact) -> Any:
    """The tensor, or another one in its place."""
    _, dtype, shape = fact
    is_there = tensor is not None and (tensor.dtype, tensor.shape) == (dtype, shape)
    return tensor.detach() if is_there else torch.zeros(shape, dtype=dtype)


class Buffers:
    """Of a model: each step begins with those of rank 0. They may change, if they do so on all ranks.

    What is sent is what all ranks had when they last agreed; so it has one size, also where one rank's have changed.
    """

    def __init__(self, module: Any) -> None:
        self._module = module
        self._facts = self._agreed = facts_of(self._tensors())

    def _tensors(self) -> dict[str, Any]:
        return dict(self._module.named_buffers())

    def have_changed(self) -> bool:
        """Since this was asked last."""
        before, self._facts = self._facts, facts_of(self._tensors())
        return self._facts != before

    def described(self) -> dict[str, str]:
        return described(self._facts, "buffer")

    def agree(self) -> None:
        """All ranks have what this one has."""
        self._agreed = self._facts

    def broadcast(self, comm: Communicator) -> None:
        broadcast_state(comm, self._tensors(), self._agreed)
