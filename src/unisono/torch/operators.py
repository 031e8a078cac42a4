"""torch's reductions, by the names that the communicator knows."""

from __future__ import annotations

from typing import Any

from torch.distributed import ReduceOp

from ..comm.call import premultiplied_sum

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


def operator(op: Any) -> Any:
    """What to give as ``op=``."""
    kind = getattr(op, "op", op)
    if name := _NAMES.get(kind):
        return name
    _, factor = op.__getstate__()  # the only way to a factor
    return premultiplied_sum(float(factor))
