"""Both ends prove the key, or there is no connection."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Generator
from typing import Any

import pytest

from unisono.comm.conversation import Loop, Talk
from unisono.comm.frames import Channel, Closed, Garbled, Kind
from unisono.comm.handshake import Guest, Refused, Secret, admit, introduce
from unisono.errors import ConfigError

SECRET = Secret("job", b"the key")


def outcome(joining: Callable[[Channel], Talk[Any]], listening: Callable[[Channel], Talk[Any]]) -> list[Any]:
    """What both ends return or raise."""
    channels = [Channel(sock) for sock in socket.socketpair()]
    results: dict[int, Any] = {}

    def keep(end: int, talk: Generator[Any, None, Any]) -> Talk[None]:
        try:
            results[end] = yield from talk
        except (ConfigError, Refused, Closed, Garbled) as error:
            results[end] = error
            channels[end].close()

    with Loop() as loop:
        loop.start(keep(0, joining(channels[0])))
        loop.start(keep(1, listening(channels[1])))
        loop.run(lambda: len(results) == 2, time.monotonic() + 20)
    for channel in channels:
        channel.close()
    return [results[0], results[1]]


def come(
    secret: Secret = SECRET, rank: int = 3, peer: int = 0, purpose: str = "tcp", stream: int = 0
) -> Callable[[Channel], Talk[None]]:
    return lambda channel: introduce(channel, secret, purpose=purpose, rank=rank, peer=peer, where="a:1", stream=stream)


def let_in(secret: Secret = SECRET, rank: int = 0) -> Callable[[Channel], Talk[Guest]]:
    return lambda channel: admit(channel, secret, purpose="tcp", rank=rank)


def test_two_that_know_the_key_let_each_other_in() -> None:
    assert outcome(come(), let_in()) == [None, (3, 0)]
    assert outcome(come(stream=5), let_in()) == [None, (3, 5)]


def test_another_key_is_refused_by_name_on_the_side_that_came() -> None:
    joining, listening = outcome(come(Secret("job", b"another")), let_in())
    assert str(joining) == "a:1 refused rank 3: the job key differs. Every rank needs the same UNISONO_KEY"
    assert isinstance(listening, Refused)


def test_another_job_another_purpose_and_another_rank_are_refused() -> None:
    assert "another job" in str(outcome(come(Secret("other", b"the key")), let_in())[0])
    assert "another job" in str(outcome(come(purpose="control"), let_in())[0])
    assert "a:1 is rank 2, where rank 3 looked for rank 0" in str(outcome(come(), let_in(rank=2))[0])


def test_a_server_that_does_not_know_the_key_is_not_believed() -> None:
    def pretend(channel: Channel) -> Talk[None]:
        yield from channel.receive(Kind.HELLO)
        yield from channel.send(Kind.CHALLENGE, {"rank": 0, "nonce": "00"})
        proof = yield from channel.receive(Kind.PROOF)
        yield from channel.send(Kind.WELCOME, {"proof": proof.body["proof"]})  # a mirror

    assert "the job key differs" in str(outcome(come(), pretend)[0])


def test_a_proof_that_was_overheard_opens_nothing() -> None:
    overheard: list[dict[str, Any]] = []

    def listen_in(channel: Channel) -> Talk[Guest]:
        class Recorder(Channel):
            def receive(self, *expected: Kind, descriptors: int = 0) -> Talk[Any]:
                frame = yield from super().receive(*expected)
                overheard.append(frame.body)
                return frame

        channel.__class__ = Recorder
        return admit(channel, SECRET, purpose="tcp", rank=0)

    assert outcome(come(), listen_in) == [None, (3, 0)]

    def replay(channel: Channel) -> Talk[None]:
        yield from channel.send(Kind.HELLO, overheard[0])
        yield from channel.receive(Kind.CHALLENGE)
        yield from channel.send(Kind.PROOF, overheard[1])
        yield from channel.receive(Kind.REFUSED)

    assert isinstance(outcome(replay, let_in())[1], Refused)


def test_a_claim_to_be_another_rank_or_stream_does_not_fit_the_proof() -> None:
    proofs = {SECRET.prove("joining", "tcp", ranks, ("a", "b")) for ranks in ((1, 0), (0, 1), (2, 0))}
    proofs |= {SECRET.prove("listening", "tcp", (1, 0), ("a", "b")), SECRET.prove("joining", "tcp", (1, 0), ("b", "a"))}
    proofs |= {SECRET.prove("joining", "tcp", (1, 0), ("a", "b"), stream=1)}
    assert len(proofs) == 6


def test_no_frame_of_the_handshake_has_the_key_in_it() -> None:
    assert "the key" not in repr(SECRET)


def test_a_server_of_another_version_is_named() -> None:
    def newer(channel: Channel) -> Talk[None]:
        yield from channel.receive(Kind.HELLO)
        channel.sock.send(b"UNIS\x07\x02\0\0\0\0\0\x02{}")

    with pytest.raises(ConfigError, match=r"a:1 speaks version 7 .* install the same unisono on every host"):
        raise outcome(come(), newer)[0]
