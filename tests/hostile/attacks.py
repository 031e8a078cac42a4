"""What strangers do with a connection. Each attack gets one that was made, and says whether it wants to keep it."""

from __future__ import annotations

import json
import os
import random
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from unisono.comm.conversation import Loop, Talk
from unisono.comm.frames import HEADER, MAGIC, VERSION, Channel, Kind, encode
from unisono.comm.handshake import Secret, admit, introduce

RESET = struct.pack("ii", 1, 0)  # SO_LINGER: a close that does not wait is a reset


@dataclass
class Attacker:
    """Who knows the name of a job and, for some of its attacks, the key."""

    rng: random.Random
    secret: Secret
    overheard: dict[str, bytes] = field(default_factory=dict)  # by purpose

    def __post_init__(self) -> None:
        for purpose in ("control", "tcp", "share"):
            self.overheard[purpose] = overhear(self.secret, purpose)

    def purpose(self, sock: socket.socket) -> str:
        return "share" if sock.family == socket.AF_UNIX else self.rng.choice(["control", "tcp"])

    def hello(self, sock: socket.socket, **changes: Any) -> bytes:
        body = {"job": self.secret.job, "purpose": self.purpose(sock), "rank": 1, "stream": 0, "nonce": "00"}
        return encode(Kind.HELLO, body | changes)

    # Each of these returns whether the connection is to be kept.

    def random_bytes(self, sock: socket.socket) -> bool:
        sock.send(self.rng.randbytes(self.rng.randint(1, 8000)))
        return self.rng.random() < 0.1

    def half_open(self, sock: socket.socket) -> bool:
        return True

    def scan(self, sock: socket.socket) -> bool:
        return False

    def scan_and_reset(self, sock: socket.socket) -> bool:
        if sock.family != socket.AF_UNIX:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        return False

    def slow_loris(self, sock: socket.socket) -> bool:
        sock.send(MAGIC[:1])
        return True

    def replay(self, sock: socket.socket) -> bool:
        sock.send(self.overheard[self.purpose(sock)])
        return self.rng.random() < 0.1

    def wrong_key(self, sock: socket.socket) -> bool:
        return self.shake_hands(sock, Secret(self.secret.job, self.rng.randbytes(32)))

    def missing_key(self, sock: socket.socket) -> bool:
        return self.shake_hands(sock, Secret(self.secret.job, b""))

    def wrong_job(self, sock: socket.socket) -> bool:
        return self.shake_hands(sock, Secret("another job", self.secret.key))

    def wrong_rank(self, sock: socket.socket) -> bool:
        return self.shake_hands(sock, self.secret, rank=self.rng.choice([-1, 0, 99, 1 << 70]))

    def wrong_version(self, sock: socket.socket) -> bool:
        sock.send(HEADER.pack(MAGIC, self.rng.choice([0, VERSION + 1, 255]), Kind.HELLO, 0, 2) + b"{}")
        return False

    def absurd_length(self, sock: socket.socket) -> bool:
        length = self.rng.choice([4097, 1 << 20, 1 << 31, 0xFFFFFFFF])
        sock.send(HEADER.pack(MAGIC, VERSION, self.rng.choice(list(Kind)), 0, length) + b" " * 5000)
        return self.rng.random() < 0.1

    def absurd_json(self, sock: socket.socket) -> bool:
        body = self.rng.choice([b"[" * 4000, b'{"a":' * 800, b'{"rank":' + b"9" * 4000 + b"}", b'"\\ud800"', b"NaN",
                                b'{"job":1e999}', b'{"job":[]}', b"{}", b"[]", b"\xff\xfe", b""])  # fmt: skip
        sock.send(HEADER.pack(MAGIC, VERSION, Kind.HELLO, 0, len(body)) + body)
        return False

    def descriptors(self, sock: socket.socket) -> bool:
        """As many as one message may carry, again and again; only Unix sockets carry any."""
        if sock.family != socket.AF_UNIX:
            return self.random_bytes(sock)
        passed = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("8i", *[0] * 8))]
        for byte in self.hello(sock)[: self.rng.choice([1, 12, 100])]:
            sock.sendmsg([bytes([byte])], passed)
        return self.rng.random() < 0.1

    def shake_hands(self, sock: socket.socket, secret: Secret, *, rank: int = 1) -> bool:
        purpose, nonce = self.purpose(sock), os.urandom(16).hex()
        hello = {"job": secret.job, "purpose": purpose, "rank": rank, "stream": 0, "nonce": nonce}
        sock.send(encode(Kind.HELLO, hello))
        kind, challenge = read_frame(sock)
        if kind is Kind.CHALLENGE:
            proof = secret.prove("joining", purpose, (rank, challenge["rank"]), (nonce, challenge["nonce"]))
            sock.send(encode(Kind.PROOF, {"proof": proof}))
            kind, _ = read_frame(sock)
        if kind is Kind.WELCOME:
            card = {"rank": rank, "size": 3, "host": "h", "pid": 1, "boot": "", "addresses": [], "port": 0, "unix": "",
                    "streams": 0}  # fmt: skip
            sock.send(encode(Kind.CARD, card))
            kind, _ = read_frame(sock)
        assert kind is Kind.REFUSED, f"{kind.name} for a stranger with rank {rank}"
        return False


Attack = Callable[[Attacker, socket.socket], bool]
ATTACKS: list[Attack] = [
    Attacker.random_bytes, Attacker.half_open, Attacker.scan, Attacker.scan_and_reset, Attacker.slow_loris,
    Attacker.replay, Attacker.wrong_key, Attacker.missing_key, Attacker.wrong_job, Attacker.wrong_rank,
    Attacker.wrong_version, Attacker.absurd_length, Attacker.absurd_json, Attacker.descriptors,
]  # fmt: skip


def read_frame(sock: socket.socket) -> tuple[Kind, dict[str, Any]]:
    """ConnectionError if the other end hangs up."""
    _, _, kind, _, length = HEADER.unpack(read(sock, HEADER.size))
    return Kind(kind), json.loads(read(sock, length))


def read(sock: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        if not (part := sock.recv(count - len(data))):
            raise ConnectionError("it hung up")
        data += part
    return data


def overhear(secret: Secret, purpose: str) -> bytes:
    """All that a rank sends in a handshake that succeeds."""
    ends = [Channel(sock) for sock in socket.socketpair()]
    sent = bytearray()
    send = Channel.send

    class Overheard(Channel):
        def send(self, kind: Kind, body: dict[str, Any], *, descriptor: int | None = None) -> Talk[None]:
            sent.extend(encode(kind, body))
            return send(self, kind, body)

    ends[0].__class__ = Overheard
    with Loop() as loop:
        loop.start(introduce(ends[0], secret, purpose=purpose, rank=1, peer=0, where="here"))
        loop.start(_admit(ends[1], secret, purpose))
        loop.run(lambda: ends[0].trusted and ends[1].trusted)
    for end in ends:
        end.close()
    return bytes(sent)


def _admit(channel: Channel, secret: Secret, purpose: str) -> Talk[None]:
    yield from admit(channel, secret, purpose=purpose, rank=0)
