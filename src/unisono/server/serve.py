"""The process of a server: ``python -m unisono.server.serve``, as ``unisono run --servers`` starts it."""

from __future__ import annotations

import os
import signal
import socket
import sys
from contextlib import closing
from time import monotonic
from typing import TYPE_CHECKING

from ..comm.conversation import Loop, Talk, pause, readable
from ..comm.handshake import Secret
from ..comm.rendezvous import listen
from ..config import Address, Settings, read_settings
from ..errors import ConfigError, UnisonoError
from .dial import PEERS, Caller, dial
from .reception import Reception
from .rules import Rules
from .settings import ServerSettings, read_server_settings

if TYPE_CHECKING:
    from .._native import ParameterShards

TO_MEET = 60.0  # seconds for the first server to appear
LOOK = 0.05  # seconds between looks whether workers are left


def serve(settings: Settings, servers: ServerSettings, stop: socket.socket) -> str | None:
    """Until something can be read from `stop`; or why it could not go on."""
    from .._native import ParameterShards

    assert servers.number is not None
    shards = ParameterShards(
        server=servers.number,
        servers=len(servers.addresses),
        threads=servers.threads,
        workers=settings.size,
        grace=servers.grace,
        log=servers.log,
        memory=servers.memory,
        rules=Rules(),
    )
    listener = _listen(settings, servers)
    over: list[str] = []
    try:
        _meet_first(settings, servers, shards)
        with (
            Loop() as loop,
            closing(Reception(listener, settings, servers, shards)) as reception,
            socket.socket(fileno=os.dup(shards.failure_descriptor())) as failed,
        ):
            reception.open(loop)
            loop.start(_obey(stop, shards, over))
            loop.start(_notice(failed, over, "failed"))
            loop.run(lambda: bool(over))
    finally:
        listener.close()
        shards.close()
    return shards.failure()


def _obey(stop: socket.socket, shards: ParameterShards, over: list[str]) -> Talk[None]:
    """At once, or, if that is what we are told, when no worker is left."""
    yield readable(stop)
    if stop.recv(1)[0] == signal.SIGUSR1:
        while shards.present() and not _told_again(stop):
            yield pause(LOOK)
    over.append("told to")


def _told_again(stop: socket.socket) -> bool:
    try:
        return bool(stop.recv(1))
    except BlockingIOError:
        return False


def _notice(sock: socket.socket, over: list[str], why: str) -> Talk[None]:
    yield readable(sock)
    over.append(why)


def _listen(settings: Settings, servers: ServerSettings) -> socket.socket:
    address = servers.addresses[servers.number or 0]
    if servers.listener is not None:
        listener = socket.socket(fileno=servers.listener)
        listener.set_inheritable(False)
        listener.setblocking(False)
        return listener
    try:
        return listen(*address, key=settings.key)
    except OSError as error:
        raise ConfigError(f"server {servers.number} cannot listen on {address}: {error.strerror}") from None


def _meet_first(settings: Settings, servers: ServerSettings, shards: ParameterShards) -> None:
    """Every shard of another server has a connection to the first one, whose order it follows."""
    number = servers.number or 0
    if number == 0:
        return
    caller = Caller(Secret(settings.job, settings.key.encode()), number, f"server {number} (host {settings.host})")
    until = monotonic() + TO_MEET
    for thread in range(servers.threads):
        shard = number * servers.threads + thread
        first: Address = servers.addresses[0]
        shards.adopt_coordinator(dial(caller, 0, first, PEERS + shard, max(0.1, until - monotonic())).socket, thread)


def main() -> None:
    """Exit code 0 when it was told to end, 1 when it could not go on."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.setblocking(False)
    signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, lambda *_: None)
    try:
        servers = read_server_settings()
        if servers.number is None:
            raise ConfigError("a server needs UNISONO_SERVER, its number, and UNISONO_SERVERS, the addresses of all")
        failure = serve(read_settings(), servers, ours)
    except UnisonoError as error:
        print(f"unisono server: {error}", file=sys.stderr, flush=True)
        sys.exit(2)
    if failure:
        print(f"unisono server {servers.number}: {failure}", file=sys.stderr, flush=True)
        sys.exit(1)
    sys.exit(0)


if __name__ == "__main__":
    main()
