"""What launchers keep for the ranks that they start: rank 0's word reaches the others before they are connected.

tcp_store  torchrun's agent
pmix       the daemons of Open MPI; pmix_client is the process that talks to them
pmi        Hydra, by which MPICH and Intel MPI start ranks

Each has ``share(where, name, word, seconds)``: rank 0 gives a word, the others None; all get the word.
"""

from __future__ import annotations

from importlib import import_module

from ...config import Store


def share(store: Store, name: str, word: bytes | None, seconds: float) -> bytes:
    """Rank 0's word on every rank. Names are used once."""
    shared: bytes = import_module(f".{store.kind}", __name__).share(store.where, name, word, seconds)
    return shared
