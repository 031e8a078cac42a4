"""What may be on its way over TCP on one host: in real jobs, by what their sockets say."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from pathlib import Path

import pytest

import unisono
from unisono.comm.buffers import ON_ITS_WAY

CORES = os.cpu_count() or 1
LARGEST = int(Path("/proc/sys/net/core/wmem_max").read_text(encoding="ascii"))


def small_buffers() -> int:
    """How many of this process's sockets have one."""
    found = 0
    with unisono.init(links="tcp", deadline=60) as comm:
        for name in os.listdir("/proc/self/fd"):
            with suppress(OSError), socket.socket(fileno=os.dup(int(name))) as each:
                found += each.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) == 2 * min(ON_ITS_WAY, LARGEST)
        comm.barrier()
    return found


@pytest.mark.skipif(CORES > 16, reason="more ranks than so many cores take long to start")
@pytest.mark.parametrize("ranks", sorted({2, CORES, CORES + 1}))
def test_links_of_crowded_ranks_hold_little(ranks: int) -> None:
    expected = ranks - 1 if ranks > CORES else 0
    assert unisono.launch(small_buffers, ranks, timeout=60) == [expected] * ranks
