"""Who comes to a server: workers, and the other servers' shards. They prove the job key; then the shards have them."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

from ..comm.conversation import Loop, Talk
from ..comm.doors import listen_unix
from ..comm.frames import Channel, Garbled, Kind
from ..comm.handshake import Guest, Secret, admit
from ..comm.refusals import Refused, Why, log
from ..comm.strangers import Strangers
from ..comm.wiring import mapped
from ..config import Settings
from ..errors import UnisonoError
from .dial import ABSENCE, DOOR, PEERS, PURPOSE
from .settings import ServerSettings

if TYPE_CHECKING:
    from .._native import ParameterShards

MOST_WORKERS = 1 << 20


class Reception:
    """At the listening socket of one server, and at a Unix socket for who shares its host."""

    def __init__(
        self, listener: socket.socket, settings: Settings, servers: ServerSettings, shards: ParameterShards
    ) -> None:
        self._number = servers.number or 0
        self._settings = servers
        self._secret = Secret(settings.job, settings.key.encode())
        self._shards = shards
        self._strangers = Strangers(listener, settings=settings)
        self._door = None if settings.links == "tcp" else _door(settings)
        self._neighbours = Strangers(self._door, settings=settings) if self._door else None

    def open(self, loop: Loop) -> None:
        self._strangers.serve(loop, self._serve)
        if self._neighbours:
            self._neighbours.serve(loop, self._share)

    def close(self) -> None:
        if self._door:
            self._door.close()

    def _serve(self, channel: Channel) -> Talk[None]:
        guest = yield from admit(channel, self._secret, purpose=PURPOSE, rank=self._number)
        if guest.stream == DOOR:
            yield from channel.send(Kind.CARD, {"unix": self._door.getsockname()[1:].decode() if self._door else ""})
            channel.close()
        elif guest.stream == ABSENCE:
            if self._number or not 0 <= guest.rank < MOST_WORKERS:
                raise Refused(Why.PLACE, f"server {self._number} does not expect worker {guest.rank}")
            self._shards.give_up(guest.rank)
            channel.close()
        elif guest.stream < PEERS:
            self._require_worker(guest)
            self._shards.adopt_worker(channel.sock.detach(), guest.rank, guest.stream)
        else:
            shard = guest.stream - PEERS
            if self._number or not self._settings.threads <= shard < self._settings.shards:
                raise Refused(Why.PLACE, f"shard {shard} of {self._settings.shards} is not another server's")
            self._shards.adopt_peer(channel.sock.detach(), shard)

    def _share(self, channel: Channel) -> Talk[None]:
        guest = yield from admit(channel, self._secret, purpose=PURPOSE, rank=self._number)
        self._require_worker(guest)
        lane = mapped((yield from channel.receive(Kind.INBOX, descriptors=1)))
        try:
            yield from channel.send(Kind.SHARED, {})
        except BaseException:
            os.close(lane)
            raise
        try:
            self._shards.adopt_worker(channel.sock.detach(), guest.rank, guest.stream, lane)
        except (UnisonoError, ValueError) as error:
            raise Garbled(f"its memory is no lane: {error}") from None

    def _require_worker(self, guest: Guest) -> None:
        if not (0 <= guest.stream < self._settings.threads and 0 <= guest.rank < MOST_WORKERS):
            raise Refused(Why.PLACE, f"worker {guest.rank} wants thread {guest.stream} of {self._settings.threads}")


def _door(settings: Settings) -> socket.socket | None:
    try:
        return listen_unix(settings)
    except OSError as error:
        log.debug("no shared memory with workers: %s", error)
        return None
