"""A look at the wire between two hosts, and what becomes of it when the other end does not answer."""

import socket
from threading import Thread

import pytest

from unisono.comm.control import Control
from unisono.comm.probe import LARGEST, probe_wire
from unisono.comm.wiring import Wiring
from unisono.errors import DeadlineExceeded, PeerLost


def end_of(sock: socket.socket, rank: int) -> Wiring:
    sock.setblocking(False)
    control = Control(rank, ["rank 0", "rank 1"], {})
    return Wiring(rank, 2, 0, [rank], ["here", "there"], ["1", "2"], None, {}, {1 - rank: [sock]}, control)


def test_rank_0_finds_out_and_the_stream_is_as_it_was() -> None:
    one, other = socket.socketpair()
    with one, other:
        answering = Thread(target=probe_wire, args=(end_of(other, 1),), kwargs={"seconds": 20.0})
        answering.start()
        wire = probe_wire(end_of(one, 0), seconds=20.0)
        answering.join(20)
        assert wire is not None
        assert 0 < wire.round_trip < 20
        assert 1e3 < wire.rate <= (1 << LARGEST) * 1e6  # where a ping took no less than all of these
        for sock in (one, other):
            assert not sock.getblocking()
            with pytest.raises(BlockingIOError):
                sock.recv(1)


def test_an_end_that_is_gone_or_silent_is_named() -> None:
    one, other = socket.socketpair()
    with one:
        other.close()
        with pytest.raises(PeerLost, match="rank 0 lost rank 1"):
            probe_wire(end_of(one, 0), seconds=20.0)
    one, other = socket.socketpair()
    with one, other, pytest.raises(DeadlineExceeded, match=r"rank 1 waited 0.1 s for rank 0"):
        probe_wire(end_of(other, 1), seconds=0.1)
