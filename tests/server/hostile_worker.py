"""Strangers come to the servers' ports while workers work."""

import os
import socket
import threading

import numpy as np
import pytest

from unisono.comm.handshake import Secret
from unisono.config import read_settings
from unisono.errors import ConfigError
from unisono.server import connect
from unisono.server.dial import Caller, dial
from unisono.server.settings import read_server_settings

addresses = read_server_settings().addresses


def pester(rounds: int) -> None:
    random = np.random.default_rng(5)
    for number in range(rounds):
        with socket.create_connection(addresses[number % len(addresses)]) as sock:
            sock.send(random.bytes(int(random.integers(1, 2000))))


def with_the_key(seed: int) -> None:
    """A rank that is no member, with the right key, sends nonsense."""
    settings = read_settings()
    random = np.random.default_rng(seed)
    caller = Caller(Secret(settings.job, settings.key.encode()), 77, "an attacker")
    sock = socket.socket(fileno=dial(caller, 0, addresses[0], 0, 5))
    with sock:
        head = bytearray(b"UPS1" + bytes([1, int(random.integers(0, 80))]) + random.bytes(58))
        head[56:60] = (1 << 31).to_bytes(4, "little")
        sock.setblocking(True)
        sock.send(bytes(head))
        sock.settimeout(5)
        answer = sock.recv(1000)
        assert not answer or b"checksum" in answer, answer


if __name__ == "__main__":
    with connect(deadline=30) as servers:
        table = servers.table("w", 50_000, dtype=np.int64)
        thread = threading.Thread(target=pester, args=(100,))
        thread.start()
        for seed in range(20):
            with_the_key(seed)
        for _ in range(20):
            table.push(np.ones(50_000))
            table.clock()
        assert (table.pull() == 20 * servers.size).all()
        thread.join()
        wrong = Caller(Secret(os.environ["UNISONO_JOB"], b"another key of some length"), 5, "a stranger")
        with pytest.raises(ConfigError, match="key differs"):
            dial(wrong, 0, addresses[0], 0, 2)
        print("unmoved", flush=True)
