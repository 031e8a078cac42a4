"""p communicators in one process, a thread each, over real sockets or real shared memory."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.comm.processes import KEY, free_port
from unisono._native import Executor, Inbox

from unisono.comm.communicator import Communicator
from unisono.comm.plans import Sharing
from unisono.comm.start import init

RING_BYTES = 4096
STAGE_BYTES = 4096  # small, so that blocks have several windows
HEAP_BYTES = 64 << 20
LINKS = ("direct", "staged", "ring", "tcp", "mixed")
"""Shared memory with and without reading private memory, or as a link; TCP; two hosts."""


def socket_pair() -> tuple[socket.socket, socket.socket]:
    """Two ends of a TCP connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        one = socket.create_connection(server.getsockname())
        other, _ = server.accept()
    return one, other


def executors(p: int, links: str, inboxes: list[Inbox], streams: int = 1) -> list[Executor]:
    """A fully connected group; streams are TCP connections per pair."""
    sockets: dict[tuple[int, int], list[int]] = {}
    for a in range(p):
        for b in range(a):
            if links == "tcp" or (links == "mixed" and (a < p // 2) != (b < p // 2)):
                pairs = [socket_pair() for _ in range(streams)]
                sockets[a, b] = [one.detach() for one, _ in pairs]
                sockets[b, a] = [other.detach() for _, other in pairs]
    return [
        Executor(
            rank,
            p,
            inboxes[rank],
            [(peer, inboxes[peer].descriptor()) for peer in range(p) if peer != rank and (rank, peer) not in sockets],
            [(peer, descriptor) for peer in range(p) for descriptor in sockets.get((rank, peer), [])],
            [(peer, os.getpid()) for peer in range(p) if peer != rank and (rank, peer) not in sockets],
            ranks_on_machine=p,
        )
        for rank in range(p)
    ]


class World:
    """p ranks that run the same function at once."""

    def __init__(
        self, p: int, links: str = "direct", deadline: float = 20.0, *, allow_pickle: bool = False, streams: int = 1
    ) -> None:
        self.p = p
        sharing = Sharing(STAGE_BYTES, direct=links == "direct") if links in ("direct", "staged") else None
        inboxes = [Inbox(p, RING_BYTES, STAGE_BYTES, HEAP_BYTES) for _ in range(p)]
        self.ranks = [
            Communicator(
                executor,
                rank=rank,
                size=p,
                deadline=deadline,
                allow_pickle=allow_pickle,
                inbox=inboxes[rank],
                sharing=sharing,
            )
            for rank, executor in enumerate(executors(p, links, inboxes, streams))
        ]

    @classmethod
    def joined(cls, p: int, links: str = "auto", **options: Any) -> World:
        """Ranks that found each other as processes do, so that they can be split."""
        self, meet = cls.__new__(cls), f"127.0.0.1:{free_port()}"
        self.p = p
        self.ranks = self._on_all(
            lambda rank: init(rank=rank, size=p, rendezvous=meet, key=KEY, links=links, **({"deadline": 20} | options)),
            range(p),
        )
        return self

    def run(self, function: Callable[[Communicator], Any]) -> list[Any]:
        return self._on_all(function, self.ranks)

    def _on_all(self, function: Callable[[Any], Any], arguments: Iterable[Any]) -> list[Any]:
        with ThreadPoolExecutor(self.p) as pool:
            futures = [pool.submit(function, argument) for argument in arguments]
            return [future.result() for future in futures]

    def __enter__(self) -> World:
        return self

    def __exit__(self, *exception: object) -> None:
        for comm in self.ranks:
            comm.close()
