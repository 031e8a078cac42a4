"""Who has left a group in order: a rank leaves a mark in torch's store when it destroys the group, or ends.

Of deaths the communicator knows, and of a rank that closes a connection its peer. This is for those who have no
connection with each other yet.
"""

from __future__ import annotations

from contextlib import suppress
from hashlib import sha256
from typing import Any

import torch.distributed as dist

from ..config import Settings


def own_part(store: Any, settings: Settings) -> Any:
    """Of a store that groups of the same name may have used before: nothing in it is of those."""
    fresh = sha256(f"{settings.job} {settings.key} {settings.rendezvous}".encode()).hexdigest()[:16]
    return dist.PrefixStore(fresh, store)


def leave(store: Any, rank: int) -> None:
    with suppress(RuntimeError):  # whoever served the store was faster
        store.set(_mark(rank), "")


def why_gone(store: Any, rank: int) -> str:
    """Nothing, as long as the rank may still come."""
    try:
        return "it has destroyed this process group" if store.check([_mark(rank)]) else ""
    except RuntimeError as error:
        return f"it cannot be found by torch's store any more, which has ended ({str(error).splitlines()[0]})"


def _mark(rank: int) -> str:
    return f"left/{rank}"
