"""Both ends of a connection prove that they know the job key, and neither shows it.

    joining                                           listening
    HELLO      job, purpose, rank, stream, nonce  →
                                                  ←   CHALLENGE  rank, nonce
    PROOF      hmac("joining", …)                 →
                                                  ←   WELCOME    hmac("listening", …), or REFUSED

The code is HMAC-SHA256 over role, purpose, stream, job, both ranks and both nonces: it is good for one connection, one
direction and one rank. The one who comes proves first, so that a stranger learns nothing that was made with the key.
What follows is neither encrypted nor signed: the key keeps strangers out of a job, it does not hide the job from who
owns the wire.
"""

from __future__ import annotations

import hmac
import json
import logging
import secrets
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from time import monotonic
from typing import NamedTuple

from ..errors import ConfigError
from .conversation import Loop, Talk, Task, pause, readable
from .frames import Channel, Closed, Frame, Garbled, Kind, OtherVersion

log = logging.getLogger("unisono.comm")

PATIENCE = 10.0  # for a stranger to become known
STRANGERS = 128  # at a time, beyond the ranks of the job


class Refused(Exception):
    """A stranger that does not belong here."""


class Guest(NamedTuple):
    """Who has come, and with which of the connections that it makes for this purpose."""

    rank: int
    stream: int


@dataclass(frozen=True)
class Secret:
    """What the ranks of a job know, and nobody else."""

    job: str
    key: bytes = field(repr=False)

    def prove(
        self, role: str, purpose: str, ranks: tuple[int, int], nonces: tuple[str, str], *, stream: int = 0
    ) -> str:
        # JSON: no two statements have the same text
        statement = json.dumps([role, purpose, stream, self.job, ranks, nonces])
        return hmac.new(self.key, statement.encode(), sha256).hexdigest()

    def derive(self, session: str) -> Secret:
        """For one meeting of the ranks, so that jobs that have no key, or the same, never mix."""
        return Secret(self.job, hmac.new(self.key, f"session {session}".encode(), sha256).digest())


def introduce(
    channel: Channel, secret: Secret, *, purpose: str, rank: int, peer: int, where: str, stream: int = 0
) -> Talk[None]:
    """The joining side: rank comes to peer, which listens at `where`. ConfigError if it is not welcome there."""
    nonce = secrets.token_hex(16)
    hello = {"job": secret.job, "purpose": purpose, "rank": rank, "stream": stream, "nonce": nonce}
    yield from channel.send(Kind.HELLO, hello)
    try:
        challenge = yield from channel.receive(Kind.CHALLENGE)
        _not_refused(challenge, rank, where)
        nonces = nonce, challenge.get("nonce", str)
        if challenge.get("rank", int) != peer:
            raise ConfigError(f"{where} is rank {challenge.body['rank']}, where rank {rank} looked for rank {peer}")
        proof = secret.prove("joining", purpose, (rank, peer), nonces, stream=stream)
        yield from channel.send(Kind.PROOF, {"proof": proof})
        welcome = yield from channel.receive(Kind.WELCOME)
    except OtherVersion as error:
        raise ConfigError(f"{where} speaks {error}: install the same unisono on every host") from None
    _not_refused(welcome, rank, where)
    if not _same(welcome.get("proof", str), secret.prove("listening", purpose, (rank, peer), nonces, stream=stream)):
        raise ConfigError(_key_differs(rank, where))
    channel.trusted = True


def admit(channel: Channel, secret: Secret, *, purpose: str, rank: int) -> Talk[Guest]:
    """The listening side: who has come. Refused if it does not belong to this job."""
    hello = yield from channel.receive(Kind.HELLO)
    peer, stream = hello.get("rank", int), hello.get("stream", int)
    if hello.get("job", str) != secret.job or hello.get("purpose", str) != purpose:
        yield from channel.send(Kind.REFUSED, {"reason": "job"})
        raise Refused("it belongs to another job")
    nonces = hello.get("nonce", str), secrets.token_hex(16)
    yield from channel.send(Kind.CHALLENGE, {"rank": rank, "nonce": nonces[1]})
    proof = yield from channel.receive(Kind.PROOF)
    if not _same(proof.get("proof", str), secret.prove("joining", purpose, (peer, rank), nonces, stream=stream)):
        yield from channel.send(Kind.REFUSED, {"reason": "key"})
        raise Refused("its key differs")
    answer = secret.prove("listening", purpose, (peer, rank), nonces, stream=stream)
    yield from channel.send(Kind.WELCOME, {"proof": answer})
    channel.trusted = True
    return Guest(peer, stream)


def receive_strangers(
    loop: Loop, listener: socket.socket, serve: Callable[[Channel], Talk[None]], *, size: int
) -> Talk[None]:
    """Serves all who come. Who says nonsense, or nothing, or is one too many, is dropped; nobody waits for it."""
    waiting: dict[Task, None] = {}
    while True:
        yield readable(listener)
        try:
            sock, _ = listener.accept()
        except OSError as error:  # it hung up already, or we are out of descriptors
            log.debug("cannot accept a connection: %s", error)
            yield pause(0.02)
            continue
        for task in [task for task in waiting if task.done]:
            del waiting[task]
        if len(waiting) >= size + STRANGERS:
            loop.cancel(oldest := next(iter(waiting)))
            del waiting[oldest]
        waiting[loop.start(_guard(Channel(sock), serve), monotonic() + PATIENCE)] = None


def _guard(channel: Channel, serve: Callable[[Channel], Talk[None]]) -> Talk[None]:
    """The channel is closed unless it was served to the end."""
    try:
        yield from serve(channel)
    except (Closed, Garbled, Refused, TimeoutError, OSError) as error:
        log.debug("dropped a connection: %s", error or "it took too long")
        channel.close()
    except BaseException:
        channel.close()
        raise


def _same(theirs: str, ours: str) -> bool:
    return hmac.compare_digest(theirs.encode(errors="replace"), ours.encode())


def _not_refused(frame: Frame, rank: int, where: str) -> None:
    if frame.kind is Kind.REFUSED:
        key = frame.body.get("reason") == "key"
        raise ConfigError(
            _key_differs(rank, where) if key else f"{where} refused rank {rank}: another job listens there"
        )


def _key_differs(rank: int, where: str) -> str:
    return f"{where} refused rank {rank}: the job key differs. Every rank needs the same UNISONO_KEY"
