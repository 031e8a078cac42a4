"""torch's reductions, by the names that the communicator knows."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.distributed import ReduceOp

from ..comm.call import premultiplied_sum
from ..errors import ConfigError

_KINDS = ReduceOp.RedOpType
_NAMES = {
    _KINDS.SUM: "sum",
    _KINDS.AVG: "avg",
    _KINDS.PRODUCT: "prod",
    _KINDS.MIN: "min",
    _KINDS.MAX: "max",
    _KINDS.BAND: "and",
    _KINDS.BOR: "or",
    _KINDS.BXOR: "xor",
}
_OF_COMPLEX = "sum", "avg"


def operator(op: Any, tensor: Tensor) -> Any:
    """What to give as ``op=``, to reduce such a tensor."""
    kind = getattr(op, "op", op)
    if name := _NAMES.get(kind):
        if tensor.is_complex() and name not in _OF_COMPLEX:  # it is reduced as pairs of numbers
            raise ConfigError(f"{name} is not defined for elements of type {tensor.dtype}: these have sum and avg")
        return name
    _, factor = op.__getstate__()  # the only way to a factor
    return premultiplied_sum(float(factor))
