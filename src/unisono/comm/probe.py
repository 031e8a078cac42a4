"""What the wire to another host is like, in a few milliseconds: for who has not measured it with ``unisono tune``.

Rank 0 asks the first rank of another host over their first stream, before it belongs to the executor:

    asks                                answers
    0                               →
                                    ←   0          there and back
    k, and 2^k bytes                →
                                    ←   k          when all are there
    LAST                            →              the stream is as it was
"""

from __future__ import annotations

from socket import socket
from time import monotonic, perf_counter
from typing import TYPE_CHECKING, NamedTuple

from ..errors import DeadlineExceeded, UnisonoError

if TYPE_CHECKING:
    from .wiring import Wiring

PINGS = 12
SMALLEST, LARGEST = 13, 22
ENOUGH = 0.001
"""Seconds: what took so long is measured well enough."""
LAST = 255
MOST_AT_ONCE = 1 << 18


class Wire(NamedTuple):
    """Seconds of the shortest way there and back, and bytes per second."""

    round_trip: float
    rate: float


def probe_wire(wiring: Wiring, *, seconds: float) -> Wire | None:
    """What rank 0 finds; None on the others, and where it has no wire to another host. All ranks have to come."""
    other = next((rank for rank, host in enumerate(wiring.hosts) if host != wiring.hosts[0]), 0)
    peer = {0: other, other: 0}.get(wiring.rank)
    if peer not in wiring.sockets:
        return None
    sock = wiring.sockets[peer][0]
    sock.settimeout(seconds)
    try:
        if wiring.rank == 0:
            return _ask(sock)
        _answer(sock, monotonic() + seconds)
        return None
    except OSError as error:
        failure = _named(error, wiring, peer, seconds)
        wiring.control.abort(failure)
        raise failure from None
    finally:
        sock.setblocking(False)


def _ask(sock: socket) -> Wire:
    begun = perf_counter()
    trips: list[float] = []
    while len(trips) < 3 or (len(trips) < PINGS and perf_counter() - begun < ENOUGH):
        trips.append(_question(sock, b"\0"))
    round_trip = min(trips)
    exponent = SMALLEST
    while True:
        taken = _question(sock, _load(exponent))
        if exponent == LARGEST or taken >= round_trip + ENOUGH:
            # Twice more: now no bucket is full of tokens, and a processor that was busy once is no slow wire.
            taken = min(_question(sock, _load(exponent)) for _ in range(2))
            if exponent == LARGEST or taken >= round_trip + ENOUGH:
                break
        exponent += 1
    sock.sendall(bytes([LAST]))
    return Wire(round_trip, (1 << exponent) / max(taken - round_trip, 1e-6))


def _load(exponent: int) -> bytes:
    return bytes([exponent]) + bytes(1 << exponent)


def _question(sock: socket, words: bytes) -> float:
    begun = perf_counter()
    sock.sendall(words)
    _take(sock, 1)
    return perf_counter() - begun


def _answer(sock: socket, until: float) -> None:
    while monotonic() < until:
        word = _take(sock, 1)
        if word[0] == LAST:
            return
        if word[0]:
            _take(sock, 1 << min(word[0], LARGEST))
        sock.sendall(word)
    raise TimeoutError


def _take(sock: socket, count: int) -> bytes:
    """The last of so many bytes."""
    last = b""
    while count:
        last = sock.recv(min(count, MOST_AT_ONCE))
        if not last:
            raise ConnectionResetError("it closed the connection")
        count -= len(last)
    return last


def _named(error: OSError, wiring: Wiring, peer: int, seconds: float) -> UnisonoError:
    names = wiring.control.names
    if isinstance(error, TimeoutError):
        return DeadlineExceeded(f"{names[wiring.rank]} waited {seconds:g} s for {names[peer]} to answer over TCP")
    return wiring.control.lost(peer, error.strerror or str(error))
