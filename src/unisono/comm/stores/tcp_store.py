"""torchrun's agent serves a TCPStore on MASTER_PORT. Its protocol is torch's own business, so torch talks to it."""

from __future__ import annotations

from datetime import timedelta
from importlib import import_module

from ...config import parse_address
from ...errors import ConfigError, DeadlineExceeded


def share(where: str, name: str, word: bytes | None, seconds: float) -> bytes:
    address = parse_address("MASTER_ADDR:MASTER_PORT", where)
    try:
        torch = import_module("torch.distributed")
    except ImportError as error:
        raise ConfigError(
            f"torchrun's store at {where} is reached by torch, which cannot be imported here ({error}): set the same "
            "UNISONO_KEY and UNISONO_RENDEZVOUS=host:port on every rank"
        ) from error
    try:
        store = torch.TCPStore(address.host, address.port, is_master=False, timeout=timedelta(seconds=seconds))
        if word is not None:
            store.set(name, word)
            return word
        found: bytes = store.get(name)
    except torch.DistError as error:
        raise DeadlineExceeded(
            f"torchrun's store at {where} had no word of rank 0 in {seconds:g} s; has rank 0 called unisono.init()? "
            f"({str(error).splitlines()[0]})"
        ) from error
    return found
