"""Who waited for whom when a call failed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from .scene import Scene, call_under_way

SHORTEST = 1_000_000
"""Nanoseconds: shorter waits for a rank that has come to the call are the usual course of things."""


class Wait(NamedTuple):
    """For whom one rank waited most, in the call that failed."""

    rank: int
    awaited: int
    seconds: float
    has_come: bool  # the awaited rank to the call, as far as the other one saw


def find_waits(scene: Scene) -> dict[int, Wait]:
    """By the rank that waited. Who has not come to the call at all is what keeps it, whoever else is late."""
    waits = {}
    for rank, dump in sorted(scene.dumps.items()):
        call = call_under_way(dump)
        peers = [peer for peer in call.peers if peer.waited >= (1 if peer.is_absent else SHORTEST)] if call else []
        if peers:
            peer = max(peers, key=lambda peer: (peer.is_absent, peer.waited, -peer.rank))
            waits[rank] = Wait(rank, dump.ranks[peer.rank], peer.waited / 1e9, not peer.is_absent)
    return waits


def find_chain(waits: Mapping[int, Wait], suspects: Collection[int]) -> list[int]:
    """The longest way from a rank that waits to the one that nobody knows to wait; to a suspect, if there is a way.

    Ranks that wait for each other in a circle end where it closes.
    """
    chains = [_follow(waits, rank) for rank in waits]
    return max(chains, key=lambda chain: (chain[-1] in suspects, len(chain), -chain[0]), default=[])


def _follow(waits: Mapping[int, Wait], rank: int) -> list[int]:
    chain, seen = [rank], {rank}
    while wait := waits.get(chain[-1]):
        chain.append(wait.awaited)
        if wait.awaited in seen:
            break
        seen.add(wait.awaited)
    return chain
