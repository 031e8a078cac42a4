"""``init_process_group("unisono")`` under `unisono run`: it sets no variables of torchrun, but the ranks can meet."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from importlib import import_module
from typing import TYPE_CHECKING, Any

import torch.distributed as dist

if TYPE_CHECKING:
    from ..config import Settings

SCHEME = "env"


def know_our_launcher() -> None:
    """Where torch looks for RANK and MASTER_ADDR, and only `unisono run` has said who we are, ask that."""
    handlers = import_module("torch.distributed.rendezvous")._rendezvous_handlers
    theirs = handlers.get(SCHEME)
    if theirs is None:  # another torch, which does this elsewhere
        return

    def meet(url: str, timeout: timedelta = dist.default_pg_timeout, **options: Any) -> Iterator[Any]:
        from ..config import read_settings_of_meeting  # not at every `import torch`

        settings = None if "?" in url else read_settings_of_meeting()
        if settings is None:
            yield from theirs(url, timeout=timeout, **options)
        else:
            yield (_store(settings, timeout), settings.rank, settings.size)

    handlers[SCHEME] = meet


def _store(settings: Settings, timeout: timedelta) -> Any:
    """Rank 0 serves a store of torch's, and tells the others on which port."""
    import numpy as np

    from ..comm.start import join
    from ..config import LOOPBACK

    host = settings.rendezvous.host if settings.rendezvous else LOOPBACK
    serves = settings.rank == 0
    with join(settings, allow_pickle=False) as comm:
        port = np.zeros(1, np.int64)
        if serves:
            store = dist.TCPStore(host, 0, None, is_master=True, timeout=timeout, wait_for_workers=False)
            port[0] = store.port
        comm.broadcast(port)
    return store if serves else dist.TCPStore(host, int(port[0]), None, is_master=False, timeout=timeout)
