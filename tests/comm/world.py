"""p communicators in one process, a thread each, over real sockets or real shared memory."""

from __future__ import annotations

import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

from unisono._native import Executor, Inbox

from unisono.comm.communicator import Communicator

RING_BYTES = 4096


def socket_pair() -> tuple[socket.socket, socket.socket]:
    """Two ends of a TCP connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        one = socket.create_connection(server.getsockname())
        other, _ = server.accept()
    return one, other


def executors(p: int, links: str, streams: int = 1) -> list[Executor]:
    """A fully connected group: links is "tcp", "shm", or "mixed" (two hosts); streams are TCP connections per pair."""
    inboxes = [Inbox(p, RING_BYTES) for _ in range(p)]
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
            [],
            ranks_on_host=p,
        )
        for rank in range(p)
    ]


class World:
    """p ranks that run the same function at once."""

    def __init__(
        self, p: int, links: str = "shm", deadline: float = 20.0, *, allow_pickle: bool = False, streams: int = 1
    ) -> None:
        self.p = p
        self.ranks = [
            Communicator(executor, rank=rank, size=p, deadline=deadline, allow_pickle=allow_pickle)
            for rank, executor in enumerate(executors(p, links, streams))
        ]

    def run(self, function: Callable[[Communicator], Any]) -> list[Any]:
        with ThreadPoolExecutor(self.p) as pool, ExitStack():
            futures = [pool.submit(function, comm) for comm in self.ranks]
            return [future.result() for future in futures]

    def __enter__(self) -> World:
        return self

    def __exit__(self, *exception: object) -> None:
        for comm in self.ranks:
            comm.close()
