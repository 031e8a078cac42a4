"""Under a foreign launcher rank 0 makes the key and opens a port, and the launcher's store takes word to the others."""

from __future__ import annotations

import json
import secrets
import socket
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from itertools import count

from ..config import Address, Settings, Store, parse_address
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
    if settings.rank:
        word = json.loads(share(store, name, None, settings.start_timeout))
        return replace(settings, key=word["key"], rendezvous=parse_address("rendezvous", word["rendezvous"]))
    key = settings.key or secrets.token_hex(KEY_BYTES)
    listener, point = (None, settings.rendezvous) if settings.rendezvous else _open(settings, store, key)
    try:
        word = {"key": key, "rendezvous": str(point)}
        share(store, name, json.dumps(word).encode(), settings.start_timeout)
    except BaseException:
        if listener:
            listener.close()
        raise
    descriptor = listener.detach() if listener else settings.listener
    return replace(settings, key=key, rendezvous=point, listener=descriptor)


def _open(settings: Settings, store: Store, key: str) -> tuple[socket.socket, Address]:
    host = settings.bind or _reachable(store.host)
    try:
        listener = listen(host, key=key, ports=settings.ports)
    except OSError as error:
        raise ConfigError(
            f"rank 0 cannot listen on {host}: {error.strerror}; set UNISONO_BIND to an address of its host, or "
            "UNISONO_RENDEZVOUS=host:port on every rank"
        ) from error
    shown, port = listener.getsockname()[:2]
    return listener, Address(_reachable(store.host) if shown in ("0.0.0.0", "::") else shown, port)


def _reachable(host: str) -> str:
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
