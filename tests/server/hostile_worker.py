"""Strangers come to the servers' ports while workers work."""

import mmap
import os
import socket
import threading
from contextlib import suppress
from time import monotonic

import numpy as np
from raising import raises

from unisono.comm.conversation import Talk, hold
from unisono.comm.conversation import connect as converse
from unisono.comm.frames import Channel, Closed, Kind
from unisono.comm.handshake import Secret, introduce
from unisono.config import read_settings
from unisono.errors import ConfigError
from unisono.server import connect
from unisono.server.dial import DOOR, PURPOSE, Caller, dial
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
    sock = socket.socket(fileno=dial(caller, 0, addresses[0], 0, 30).socket)
    with sock:
        head = bytearray(b"UPS1" + bytes([3, int(random.integers(0, 80))]) + random.bytes(58))
        head[56:60] = (1 << 31).to_bytes(4, "little")
        sock.setblocking(True)
        sock.send(bytes(head))
        sock.settimeout(30)
        answer = sock.recv(1000)
        assert not answer or b"checksum" in answer, answer


def through_memory(seed: int) -> None:
    """The same through memory, all of which it writes over."""
    settings = read_settings()
    caller = Caller(Secret(settings.job, settings.key.encode()), 77, "an attacker", shares=True)
    line = dial(caller, 0, addresses[0], 0, 30)
    assert line.lane
    with socket.socket(fileno=line.socket) as sock:
        size = os.fstat(line.lane.descriptor()).st_size
        with mmap.mmap(line.lane.descriptor(), size) as memory:
            memory[:] = np.random.default_rng(seed).bytes(size)
        sock.setblocking(True)
        sock.settimeout(30)
        with suppress(BrokenPipeError, ConnectionResetError):  # if it has seen that already
            sock.send(b"!")
            while sock.recv(100):  # it rings, perhaps; then it hangs up
                pass


def with_other_memory() -> None:
    """What it shares is none of ours, or too small."""
    settings = read_settings()
    secret = Secret(settings.job, settings.key.encode())
    for size in (100, 4096, 3 << 20):
        descriptor = os.memfd_create("other", os.MFD_ALLOW_SEALING)
        os.ftruncate(descriptor, size)

        def talk(passed: int = descriptor) -> Talk[None]:
            channel = Channel(socket.socket())
            yield from converse(channel.sock, addresses[0])
            yield from introduce(channel, secret, purpose=PURPOSE, rank=77, peer=0, where="it", stream=DOOR)
            door = (yield from channel.receive(Kind.CARD)).get("unix", str)
            channel.close()
            channel = Channel(socket.socket(socket.AF_UNIX))
            yield from converse(channel.sock, f"\0{door}")
            yield from introduce(channel, secret, purpose=PURPOSE, rank=77, peer=0, where="it", stream=0)
            yield from channel.send(Kind.INBOX, {}, descriptor=passed)
            try:
                yield from channel.receive(Kind.SHARED)
                yield from channel.receive(Kind.SHARED)
                raise AssertionError("it was taken")
            except Closed:
                channel.close()

        hold(talk(), monotonic() + 30)
        os.close(descriptor)


if __name__ == "__main__":
    with connect(deadline=30) as servers:
        table = servers.table("w", 50_000, dtype=np.int64)
        thread = threading.Thread(target=pester, args=(100,))
        thread.start()
        for seed in range(20):
            with_the_key(seed)
            through_memory(seed)
        with_other_memory()
        for _ in range(20):
            table.push(np.ones(50_000))
            table.clock()
        assert (table.pull() == 20 * servers.size).all()
        thread.join()
        wrong = Caller(Secret(os.environ["UNISONO_JOB"], b"another key of some length"), 5, "a stranger")
        with raises(ConfigError, match="key differs"):
            dial(wrong, 0, addresses[0], 0, 30)
        print("unmoved", flush=True)
