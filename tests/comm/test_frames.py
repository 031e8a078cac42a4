"""Frames against friends and strangers."""

from __future__ import annotations

import json
import os
import socket
import struct
import time
from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unisono.comm.conversation import Loop, Talk, hold, pause
from unisono.comm.frames import (
    HEADER,
    MAGIC,
    MOST,
    VERSION,
    Channel,
    Closed,
    Frame,
    Garbled,
    Kind,
    OtherVersion,
    encode,
)
from unisono.errors import ConfigError

Ends = tuple[Channel, Channel]


@pytest.fixture
def ends() -> Iterator[Ends]:
    a, b = (Channel(sock) for sock in socket.socketpair())
    yield a, b
    a.close()
    b.close()


def soon() -> float:
    return time.monotonic() + 20


def header(
    length: int, *, kind: int = Kind.HELLO, version: int = VERSION, magic: bytes = MAGIC, zero: int = 0
) -> bytes:
    return HEADER.pack(magic, version, kind, zero, length)


def test_a_frame_arrives_as_it_was_sent(ends: Ends) -> None:
    body = {"text": "α\n", "list": [1, 2.5, None], "deep": {"a": {"b": []}}}
    hold(ends[0].send(Kind.MESSAGE, body))
    assert hold(ends[1].receive(Kind.MESSAGE), soon()) == Frame(Kind.MESSAGE, body)


def test_a_frame_larger_than_the_buffers_arrives_in_parts(ends: Ends) -> None:
    a, b = ends
    a.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    b.trusted = True
    got: list[Frame] = []

    def take() -> Talk[None]:
        got.append((yield from b.receive(Kind.MESSAGE)))

    with Loop() as loop:
        loop.start(a.send(Kind.MESSAGE, {"value": "x" * 900_000}))
        loop.start(take())
        loop.run(lambda: bool(got), soon())
    assert len(got[0].body["value"]) == 900_000


def test_reading_stops_at_the_end_of_the_frame(ends: Ends) -> None:
    ends[0].sock.send(encode(Kind.HELLO, {}) + b"what follows")
    hold(ends[1].receive(Kind.HELLO), soon())
    assert ends[1].sock.recv(100) == b"what follows"


HOSTILE = [
    b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    bytes(range(64)),
    header(0xFFFFFFFF),
    header(4097) + b"{" * 4097,
    header(2, zero=7) + b"{}",
    header(2, kind=200) + b"{}",
    header(2, kind=Kind.MESSAGE) + b"{}",
    header(3) + b"{]}",
    header(2) + b"[]",
    header(0),
    header(2) + b"\xff\xfe",
    header(4000) + b"[" * 4000,
    header(4000) + b'{"a":' * 800,
]


@pytest.mark.parametrize("data", HOSTILE, ids=lambda data: repr(data[:16]))
def test_hostile_bytes_are_garbled_and_nothing_else(ends: Ends, data: bytes) -> None:
    ends[0].sock.send(data)
    with pytest.raises(Garbled):
        hold(ends[1].receive(Kind.HELLO), soon())


def receive_in_pieces(data: bytes, cuts: list[int]) -> Frame | str:
    """The frame, or the name of the error, of bytes that arrive in pieces before their sender hangs up."""
    a, b = (Channel(sock) for sock in socket.socketpair())
    ends = sorted({min(cut, len(data)) for cut in cuts} | {len(data)})
    outcome: list[Frame | str] = []

    def feed() -> Talk[None]:
        for begin, end in pairwise([0, *ends]):
            a.sock.send(data[begin:end], socket.MSG_NOSIGNAL)
            yield pause(0)
        a.close()

    def take() -> Talk[None]:
        try:
            outcome.append((yield from b.receive(Kind.HELLO)))
        except (Garbled, Closed) as error:
            outcome.append(type(error).__name__)

    with Loop() as loop:
        loop.start(take())
        loop.start(feed())
        loop.run(lambda: bool(outcome), soon())
    a.close()
    b.close()
    return outcome[0]


BODIES = st.one_of(
    st.binary(max_size=100),
    st.recursive(
        st.none() | st.integers() | st.text(max_size=5), lambda x: st.dictionaries(st.text(max_size=3), x)
    ).map(lambda body: json.dumps(body).encode()),
)
HEADERS = st.builds(
    HEADER.pack,
    st.sampled_from([MAGIC, b"UNIT"]),
    st.sampled_from([VERSION, 0, 9]),
    st.sampled_from([Kind.HELLO, Kind.REFUSED, Kind.ABORT, 0, 255]),
    st.sampled_from([0, 1]),
    st.sampled_from([0, 2, 100, 4096, 4097, MOST, 0xFFFFFFFF]) | st.integers(0, 200),
)
FRAMES = st.builds(
    lambda kind, body, rest: HEADER.pack(MAGIC, VERSION, kind, 0, len(body)) + body + rest,
    st.sampled_from([Kind.HELLO, Kind.REFUSED, Kind.CARD]),
    BODIES,
    st.binary(max_size=10),
)
BYTES = st.binary(max_size=200) | st.builds(lambda head, body: head + body, HEADERS, BODIES) | FRAMES


@pytest.mark.soak
@given(data=BYTES, cuts=st.lists(st.integers(0, 200), max_size=8))
def test_any_bytes_in_any_pieces_are_a_frame_or_garbled_or_an_end(data: bytes, cuts: list[int]) -> None:
    got = receive_in_pieces(data, cuts)
    assert got == receive_in_pieces(data, [])
    if isinstance(got, Frame):
        magic, version, kind, zero, length = HEADER.unpack_from(data)
        assert (magic, version, kind, zero) == (MAGIC, VERSION, got.kind, 0)
        assert got.body == json.loads(data[HEADER.size : HEADER.size + length])
    else:
        assert got in ("Garbled", "OtherVersion", "Closed")


def test_another_version_is_told_apart_from_garbage(ends: Ends) -> None:
    ends[0].sock.send(header(2, version=9) + b"{}")
    with pytest.raises(OtherVersion, match="version 9 of the protocol; this is version 1"):
        hold(ends[1].receive(Kind.HELLO), soon())


def test_a_huge_length_is_refused_before_the_body_is_read(ends: Ends) -> None:
    ends[1].trusted = True
    ends[0].sock.send(header(MOST + 1))
    with pytest.raises(Garbled, match="bytes"):
        hold(ends[1].receive(Kind.HELLO), soon())


def test_who_sends_half_a_frame_and_nothing_more_meets_the_deadline(ends: Ends) -> None:
    ends[0].sock.send(encode(Kind.HELLO, {"a": 1})[:-1])
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        hold(ends[1].receive(Kind.HELLO), began + 0.2)
    assert time.monotonic() - began < 20


def test_the_end_of_a_connection_is_closed_wherever_it_comes(ends: Ends) -> None:
    ends[0].sock.send(encode(Kind.HELLO, {})[:5])
    ends[0].close()
    with pytest.raises(Closed):
        hold(ends[1].receive(Kind.HELLO), soon())
    with pytest.raises(Closed):
        hold(ends[1].send(Kind.HELLO, {}), soon())


def test_a_field_has_to_be_there_and_of_its_type() -> None:
    frame = Frame(Kind.HELLO, {"rank": 3, "flag": True, "text": "x"})
    assert frame.get("rank", int) == 3
    for name in ("flag", "text", "absent"):
        with pytest.raises(Garbled, match=name):
            frame.get(name, int)


def test_what_is_not_json_or_too_large_is_refused_where_it_is_sent() -> None:
    with pytest.raises(ConfigError, match="JSON"):
        encode(Kind.MESSAGE, {"value": object()})
    with pytest.raises(ConfigError, match="above the limit"):
        encode(Kind.MESSAGE, {"value": "x" * MOST})
    assert json.loads(encode(Kind.MESSAGE, {"value": 1})[HEADER.size :]) == {"value": 1}


def test_a_descriptor_travels_with_its_frame_and_is_not_inherited(ends: Ends) -> None:
    with open(os.devnull) as file:
        hold(ends[0].send(Kind.INBOX, {}, descriptor=file.fileno()))
    frame = hold(ends[1].receive(Kind.INBOX, descriptors=1), soon())
    assert len(frame.descriptors) == 1
    assert not os.get_inheritable(frame.descriptors[0])
    os.close(frame.descriptors[0])


def test_descriptors_that_nobody_asked_for_are_not_kept(ends: Ends) -> None:
    before = len(os.listdir("/proc/self/fd"))
    fds = struct.pack("2i", 0, 1)
    for asked in (0, 1):
        ends[0].sock.sendmsg([encode(Kind.HELLO, {})], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
        with pytest.raises(Garbled) if asked else pytest.MonkeyPatch.context():
            hold(ends[1].receive(Kind.INBOX if asked else Kind.HELLO, descriptors=asked), soon())
    assert len(os.listdir("/proc/self/fd")) == before
