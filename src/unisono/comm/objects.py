"""Any Python object, by pickle: only where it was allowed, because who sends a pickle runs code here."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import ConfigError

if TYPE_CHECKING:
    from .communicator import Communicator


def allgather(comm: Communicator, value: Any, deadline: float | None) -> list[Any]:
    """All ranks' objects, by rank, on every rank."""
    mine = _packed(comm, value)
    lengths = comm.allgather(np.array([mine.size]), deadline=deadline).ravel()
    return _unpacked(comm.allgatherv(mine, deadline=deadline), lengths)


def gather(comm: Communicator, value: Any, root: int, deadline: float | None) -> list[Any] | None:
    """All ranks' objects, by rank, on the root; None elsewhere."""
    mine = _packed(comm, value)
    lengths = comm.allgather(np.array([mine.size]), deadline=deadline).ravel()
    together = comm.gatherv(mine, root, deadline=deadline)
    return None if together is None else _unpacked(together, lengths)


def broadcast(comm: Communicator, value: Any, root: int, deadline: float | None) -> Any:
    """The root's object, on every rank."""
    mine = _packed(comm, value if comm.rank == root else None)
    length = np.array([mine.size])
    comm.broadcast(length, root, deadline=deadline)
    whole = mine if comm.rank == root else np.empty(length[0], np.uint8)
    return pickle.loads(comm.broadcast(whole, root, deadline=deadline))


def _packed(comm: Communicator, value: Any) -> NDArray[np.uint8]:
    if not comm.allow_pickle:
        raise ConfigError(
            "objects travel by pickle, which runs code that the other ranks send; "
            "unisono.init(allow_pickle=True) allows it"
        )
    return np.frombuffer(pickle.dumps(value), np.uint8).copy()


def _unpacked(together: NDArray[np.uint8], lengths: NDArray[np.int64]) -> list[Any]:
    return [pickle.loads(part.tobytes()) for part in np.split(together, np.cumsum(lengths)[:-1])]
