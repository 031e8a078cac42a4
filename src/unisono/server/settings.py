"""Where the servers of a job are, which of them this process is, and what they were told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .. import config
from ..config import Address
from ..errors import ConfigError
from ..values import seconds, whole

GRACE = 1.0  # seconds that a worker has to come back
MOST_THREADS = 64
MOST_SERVERS = 256
MEMORY = 64 << 30


@dataclass(frozen=True)
class ServerSettings:
    """The same for all processes of a job, apart from `number`."""

    addresses: tuple[Address, ...] = ()
    threads: int = 1  # of each server: each has a shard
    number: int | None = None  # of the server that this process is
    listener: int | None = None  # a descriptor that listens at its address already
    grace: float = GRACE
    log: str = ""  # a directory for apply logs
    memory: int = MEMORY  # bytes of tables that a shard may have

    @property
    def shards(self) -> int:
        return len(self.addresses) * self.threads


def read_server_settings(environ: Mapping[str, str] | None = None) -> ServerSettings:
    """What UNISONO_SERVERS and its relatives say."""
    environ = config.inherited() if environ is None else environ

    def number(name: str, low: int, high: int | None, default: int | None) -> int | None:
        text = environ.get(name)
        return whole(name, text, low=low, high=high) if text else default

    texts = [text for text in environ.get("UNISONO_SERVERS", "").split(",") if text.strip()]
    if len(texts) > MOST_SERVERS:
        raise ConfigError(f"UNISONO_SERVERS has {len(texts)} addresses, valid is up to {MOST_SERVERS}")
    addresses = tuple(config.parse_address("UNISONO_SERVERS", text) for text in texts)
    grace = environ.get("UNISONO_SERVER_GRACE")
    return ServerSettings(
        addresses=addresses,
        threads=number("UNISONO_SERVER_THREADS", 1, MOST_THREADS, 1) or 1,
        number=number("UNISONO_SERVER", 0, max(0, len(addresses) - 1), None),
        listener=number("UNISONO_SERVER_LISTENER", 0, None, None),
        grace=seconds("UNISONO_SERVER_GRACE", grace) if grace else GRACE,
        log=environ.get("UNISONO_SERVER_LOG", ""),
        memory=number("UNISONO_SERVER_MEMORY", 1, None, MEMORY) or MEMORY,
    )
