"""Who comes to a server: workers, and the other servers' shards. They prove the job key; then the shards have them."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from ..comm.conversation import Loop, Talk
from ..comm.frames import Channel
from ..comm.handshake import Secret, admit
from ..comm.refusals import Refused, Why
from ..comm.strangers import Strangers
from ..config import Settings
from .dial import PEERS, PURPOSE
from .settings import ServerSettings

if TYPE_CHECKING:
    from .._native import ParameterShards

MOST_WORKERS = 1 << 20


class Reception:
    """At the listening socket of one server."""

    def __init__(
        self, listener: socket.socket, settings: Settings, servers: ServerSettings, shards: ParameterShards
    ) -> None:
        self._number = servers.number or 0
        self._settings = servers
        self._secret = Secret(settings.job, settings.key.encode())
        self._shards = shards
        self._strangers = Strangers(listener, settings=settings)

    def open(self, loop: Loop) -> None:
        self._strangers.serve(loop, self._serve)

    def _serve(self, channel: Channel) -> Talk[None]:
        number, stream = yield from admit(channel, self._secret, purpose=PURPOSE, rank=self._number)
        if stream < PEERS:
            if not (0 <= stream < self._settings.threads and 0 <= number < MOST_WORKERS):
                raise Refused(Why.PLACE, f"worker {number} wants thread {stream} of {self._settings.threads}")
            self._shards.adopt_worker(channel.sock.detach(), number, stream)
            return
        shard = stream - PEERS
        if self._number or not self._settings.threads <= shard < self._settings.shards:
            raise Refused(Why.PLACE, f"shard {shard} of {self._settings.shards} is not another server's")
        self._shards.adopt_peer(channel.sock.detach(), shard)
