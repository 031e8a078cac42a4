"""A port among strangers: bounded, patient with nobody, and open to who belongs to the job."""

from __future__ import annotations

import logging
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import Any

import pytest
from tests.comm.processes import Job
from tests.comm.test_wiring import assert_wired, listens, wait_until

from unisono.comm import strangers
from unisono.comm.conversation import Loop, Talk, pause
from unisono.comm.frames import Channel, Kind, encode
from unisono.comm.handshake import Guest, Secret, admit, introduce
from unisono.comm.refusals import Refusals, Why
from unisono.comm.rendezvous import listen
from unisono.comm.strangers import MOST, Strangers
from unisono.config import Settings

SECRET = Secret("job", b"the key")
SETTINGS = Settings(rank=0, size=2, job="job", host="h")


class Port:
    """A port of rank 0, and who was let in there."""

    def __init__(self) -> None:
        self.listener = listen("127.0.0.1", key="")
        self.refusals = Refusals()
        self.strangers = Strangers(self.listener, settings=SETTINGS, refusals=self.refusals)
        self.guests: list[Guest] = []
        self.open = ExitStack()
        self.open.callback(self.strangers.close)
        self.open.callback(self.listener.close)

    def serve(self, channel: Channel) -> Talk[None]:
        self.guests.append((yield from admit(channel, SECRET, purpose="control", rank=0)))
        self.open.callback(channel.close)

    def connect(self, data: bytes = b"") -> socket.socket:
        sock = socket.create_connection(self.listener.getsockname()[:2], timeout=30)
        self.open.callback(sock.close)
        sock.sendall(data)
        return sock

    def come(self) -> Talk[None]:
        channel = Channel(self.connect())
        yield from introduce(channel, SECRET, purpose="control", rank=1, peer=0, where="here")


@pytest.fixture
def port() -> Iterator[Port]:
    port = Port()
    with port.open:
        yield port


def soon() -> float:
    return time.monotonic() + 30


def test_a_rank_is_let_in_after_hundreds_that_reset_their_connections_in_the_queue(port: Port) -> None:
    for _ in range(300):
        with port.connect() as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    with Loop() as loop:
        port.strangers.serve(loop, port.serve)
        loop.start(port.come())
        loop.run(lambda: bool(port.guests), soon())
    assert port.guests == [(1, 0)]


def test_who_comes_before_it_can_be_served_waits_and_is_served_then(port: Port) -> None:
    with Loop() as loop:
        collecting = port.strangers.collect(loop)
        coming = loop.start(port.come())
        with suppress(TimeoutError):
            loop.run(lambda: coming.done, time.monotonic() + 0.2)
        assert not coming.done
        loop.cancel(collecting)
        port.strangers.serve(loop, port.serve)
        loop.run(lambda: coming.done, soon())
    assert port.guests == [(1, 0)]


def test_a_crowd_is_bounded_and_drops_who_has_not_said_that_it_belongs_here_first(port: Port) -> None:
    most = MOST + SETTINGS.size
    hello = {"job": "job", "purpose": "control", "rank": 1, "stream": 0, "nonce": "00"}
    rank = port.connect(encode(Kind.HELLO, hello))
    answered: list[Any] = []

    def hear() -> Talk[None]:
        answered.append((yield from Channel(rank).receive(Kind.CHALLENGE)))

    with Loop() as loop:
        port.strangers.serve(loop, port.serve)
        loop.start(hear())
        loop.run(lambda: bool(answered), soon())
        for turn in range(3):
            for _ in range(most):
                port.connect()
            loop.run(lambda turn=turn: port.refusals.counts[Why.CROWD] == turn * most + 1, soon())
            loop.run(idle(loop), soon())
            assert len(port.strangers._here) == most
        assert port.refusals.counts[Why.CROWD] == 2 * most + 1
        proof = SECRET.prove("joining", "control", (1, 0), ("00", answered[0].body["nonce"]))
        rank.sendall(encode(Kind.PROOF, {"proof": proof}))
        loop.run(lambda: bool(port.guests), soon())


def idle(loop: Loop) -> Any:
    """Nothing has come for a tenth of a second."""

    def wait() -> Talk[None]:
        yield pause(0.1)

    task = loop.start(wait())
    return lambda: task.done


def test_a_stranger_has_so_long_to_become_known_however_busy_it_is(port: Port, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strangers, "PATIENCE", 0.3)
    slow = port.connect()
    hello = iter(encode(Kind.HELLO, {"job": "job"}))

    def drip() -> Talk[None]:
        with suppress(OSError):
            for byte in hello:
                slow.send(bytes([byte]))
                yield pause(0.02)

    began = time.monotonic()
    with Loop() as loop:
        port.strangers.serve(loop, port.serve)
        loop.start(drip())
        loop.run(lambda: bool(port.refusals.counts), soon())
    assert port.refusals.counts == {Why.SILENCE: 1}
    assert 0.3 <= time.monotonic() - began < 9  # its usual patience is 10 s
    with suppress(ConnectionResetError):  # a byte may have come after the last look
        assert slow.recv(1) == b""


def test_refusals_are_told_once_for_each_reason_and_then_counted(port: Port, caplog: pytest.LogCaptureFixture) -> None:
    with Loop() as loop, caplog.at_level(logging.WARNING, "unisono.comm"):
        port.strangers.serve(loop, port.serve)
        for _ in range(25):
            port.connect(b"GET / HTTP/1.1\r\n\r\n")
        port.connect(b"UNIS\x09\x01\0\0\0\0\0\x02{}")
        loop.run(lambda: port.refusals.counts.total() == 26, soon())
    first, tenth, version = [record.getMessage() for record in caplog.records]
    assert first.startswith("unisono: rank 0 of job job (host h, pid ")
    assert "refused a connection from 127.0.0.1:" in first
    assert "what it sends is no handshake: not a frame. Others like it are counted" in first
    assert tenth.endswith("refused the 10th connection because what it sends is no handshake")
    assert "If it was meant to join: install the same unisono on every host." in version


def test_a_rank_that_is_out_of_descriptors_sends_strangers_away_for_a_rank() -> None:
    with Job(2, UNISONO_DEADLINE="8") as job, ExitStack() as kept:  # less than strangers have
        zero = job.start(0, prefix=("sh", "-c", 'ulimit -n 40; exec "$@"', "sh"))
        wait_until(lambda: listens(zero.pid))
        for _ in range(100):
            kept.enter_context(socket.create_connection(("127.0.0.1", job.port), timeout=30))
        job.start(1)
        assert_wired(job.reports())
