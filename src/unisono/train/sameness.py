"""Do all ranks mean the same model?"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import MismatchError

if TYPE_CHECKING:
    from ..comm.communicator import Communicator


def require_same(
    comm: Communicator, parameters: Sequence[str], options: Mapping[str, Any], others: Mapping[str, str]
) -> None:
    """Compare descriptions of parameters, options, and what else a model has, with all ranks; the error names the first
    that differs.

    All ranks raise, or none.
    """
    text = json.dumps([list(parameters), {name: str(value) for name, value in options.items()}, dict(others)]).encode()
    digest = np.frombuffer(blake2b(text, digest_size=8).digest(), np.uint64)
    if len(np.unique(comm.allgather(digest))) == 1:
        return
    pieces = comm.allgatherv(np.frombuffer(text, np.uint8))
    lengths = comm.allgather(np.array([len(text)], np.int64)).ravel()
    ends = np.cumsum(lengths)
    said = [json.loads(pieces[end - length : end].tobytes()) for length, end in zip(lengths, ends, strict=True)]
    rank = next(rank for rank, each in enumerate(said) if each != said[0])
    error = MismatchError(f"rank {rank} trains something else than rank 0: {_difference(said[0], said[rank], rank)}")
    error.ranks = (rank,)
    raise error


def _difference(first: list[Any], other: list[Any], rank: int) -> str:
    for number in range(max(len(first[0]), len(other[0]))):
        here, there = (each[0][number] if number < len(each[0]) else "nothing" for each in (first, other))
        if here != there:
            return f"parameter {number} is {here} on rank 0, and {there} on rank {rank}"
    for name in dict.fromkeys([*first[1], *other[1]]):
        if first[1].get(name) != other[1].get(name):
            return f"{name}={first[1].get(name)} on rank 0, and {name}={other[1].get(name)} on rank {rank}"
    here, there = first[2], other[2]
    name = next(name for name in {**here, **there} if here.get(name) != there.get(name))
    return f"{name} is {here.get(name, 'missing')} on rank 0, and {there.get(name, 'missing')} on rank {rank}"


def fingerprint(*facts: Any) -> float:
    """A number that differs where these do, as far as a float has room for it."""
    return float(int.from_bytes(blake2b(repr(facts).encode(), digest_size=6).digest()))
