"""A conversation with a time limit."""

from __future__ import annotations

import socket
import time

import pytest

from unisono.comm.conversation import Loop, Talk, hold, readable, within


def listen_for(sock: socket.socket, ended: list[str]) -> Talk[bytes]:
    try:
        yield readable(sock)
        return sock.recv(10)
    finally:
        ended.append("ended")


def test_what_is_said_in_time_is_returned() -> None:
    one, other = socket.socketpair()
    with one, other:
        other.send(b"here")
        assert hold(within(5, listen_for(one, []))) == b"here"


def test_silence_is_a_time_out_inside_the_conversation() -> None:
    one, other = socket.socketpair()
    ended: list[str] = []
    with one, other:
        start = time.monotonic()
        with pytest.raises(TimeoutError):
            hold(within(0.05, listen_for(one, ended)), start + 20)
    assert ended == ["ended"]
    assert time.monotonic() - start < 10


def test_a_conversation_that_is_cancelled_ends_inside() -> None:
    one, other = socket.socketpair()
    ended: list[str] = []

    def wait() -> Talk[None]:
        yield from within(60, listen_for(one, ended))

    with one, other:
        with Loop() as loop:
            loop.start(wait())
            assert ended == []
        assert ended == ["ended"]
