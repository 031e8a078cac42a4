"""What the survivors have agreed on: who goes on, and where they meet."""

from __future__ import annotations

from dataclasses import dataclass

from ..config import Address
from ..errors import PeerLost
from .conversation import Talk
from .frames import Channel, Closed, Frame, Garbled
from .rendezvous import Directory


@dataclass(frozen=True)
class Roster:
    """The connections that led to it stay open until they have met."""

    members: list[int]
    job: str
    rendezvous: Address
    channels: dict[int, Channel]

    @classmethod
    def read(cls, frame: Frame, rank: int, host: int, where: Address, channel: Channel) -> Roster:
        """As a host has told this rank."""
        members: list[int] = frame.get("members", list)
        if not all(isinstance(member, int) for member in members) or rank not in members:
            raise Garbled("a list without its reader")
        return cls(members, frame.get("job", str), where, {host: channel})

    def witnesses(self, directory: Directory) -> list[Talk[None]]:
        """For the leader: each raises if one that it waits for is gone."""
        return [_notice_end(str(directory.cards[rank]), channel) for rank, channel in self.channels.items()]

    def close(self) -> None:
        for channel in self.channels.values():
            channel.close()


def _notice_end(name: str, channel: Channel) -> Talk[None]:
    try:
        yield from channel.receive()
    except (Closed, Garbled) as error:
        raise PeerLost(f"{name} was lost while the survivors met: {error}") from None
