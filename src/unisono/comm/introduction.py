"""Under a foreign launcher rank 0 makes the key and opens a port, and the launcher's store takes word to the others."""

from __future__ import annotations

import json
import secrets
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from hashlib import sha256
from itertools import count

from ..config import Address, Settings, parse_address
from ..errors import ConfigError
from .addresses import is_loopback
from .rendezvous import listen
from .stores import share

KEY_BYTES = 32
SOMEWHERE = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))
"""Reserved for documentation: the way there is the way out."""

_numbers = count()  # every rank calls init() as often as the others


def introduce_ranks(settings: Settings) -> Settings:
    """The settings with key and meeting point; where nobody has set them, they come from rank 0."""
    store = settings.store
    if store is None or (settings.key and settings.rendezvous):
        return settings
    name = f"unisono-{sha256(settings.job.encode()).hexdigest()[:16]}-{next(_numbers)}"
    return introduce_through(partial(share, store, name), store.host, settings)


def introduce_through(tell: Callable[[bytes | None, float], bytes], host: str, settings: Settings) -> Settings:
    """Likewise, by any means that takes rank 0's word to the others, in so many seconds; host is that of rank 0."""
    if settings.rank:
        word = json.loads(tell(None, settings.start_timeout))
        return replace(settings, key=word["key"], rendezvous=parse_address("rendezvous", word["rendezvous"]))
    key = settings.key or secrets.token_hex(KEY_BYTES)
    listener, point = (None, settings.rendezvous) if settings.rendezvous else _open(settings, host, key)
    try:
        word = {"key": key, "rendezvous": str(point)}
        tell(json.dumps(word).encode(), settings.start_timeout)
    except BaseException:
        if listener:
            listener.close()
        raise
    descriptor = listener.detach() if listener else settings.listener
    return replace(settings, key=key, rendezvous=point, listener=descriptor)


def _open(settings: Settings, told: str, key: str) -> tuple[socket.socket, Address]:
    host = settings.bind or reachable(told)
    try:
        listener = listen(host, key=key, ports=settings.ports)
    except OSError as error:
        raise ConfigError(
            f"rank 0 cannot listen on {host}: {error.strerror}; set UNISONO_BIND to an address of its host, or "
            "UNISONO_RENDEZVOUS=host:port on every rank"
        ) from error
    shown, port = listener.getsockname()[:2]
    return listener, Address(reachable(told) if shown in ("0.0.0.0", "::") else shown, port)


def reachable(host: str) -> str:
    """An address of this host that the others reach: the launcher's, unless a name leads back to this host only."""
    if host:
        with suppress(OSError):
            address = str(socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0][4][0])
            if is_loopback(host) or not is_loopback(address):
                return address
    for family, somewhere in SOMEWHERE:
        with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((somewhere, 9))  # of datagrams: nothing is sent, only a route is chosen
            return str(probe.getsockname()[0])
    raise ConfigError(
        "rank 0 finds no address of its host by which the others could reach it: set UNISONO_RENDEZVOUS=host:port, "
        "the same on every rank"
    )
