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
import secrets
from dataclasses import dataclass, field
from hashlib import sha256
from typing import NamedTuple

from ..errors import ConfigError
from .conversation import Talk
from .frames import Channel, Closed, Frame, Kind, OtherVersion
from .refusals import Refused, Why


class Dropped(Closed):
    """The other end hung up before it knew who we are: it may have had too many strangers, and time later."""


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
    """The joining side: rank comes to peer, which listens at `where`. ConfigError if it is not welcome there,
    Dropped if nobody says so."""
    nonce = secrets.token_hex(16)
    hello = {"job": secret.job, "purpose": purpose, "rank": rank, "stream": stream, "nonce": nonce}
    try:
        yield from channel.send(Kind.HELLO, hello)
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
    except Closed as error:
        raise Dropped(str(error)) from None
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
        raise Refused(Why.JOB)
    nonces = hello.get("nonce", str), secrets.token_hex(16)
    channel.greeted = True
    yield from channel.send(Kind.CHALLENGE, {"rank": rank, "nonce": nonces[1]})
    proof = yield from channel.receive(Kind.PROOF)
    if not _same(proof.get("proof", str), secret.prove("joining", purpose, (peer, rank), nonces, stream=stream)):
        yield from channel.send(Kind.REFUSED, {"reason": "key"})
        raise Refused(Why.KEY)
    answer = secret.prove("listening", purpose, (peer, rank), nonces, stream=stream)
    yield from channel.send(Kind.WELCOME, {"proof": answer})
    channel.trusted = True
    return Guest(peer, stream)


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
