"""The survivors of a communicator come together and agree on who they are.

Everybody who calls ``shrink()`` listens on its refuge, and comes to the lowest rank that it finds listening:

    who comes                                      who is come to
    HELLO … WELCOME   as in every handshake
    COME       whom it doubts                  →
                                               ←   WAIT       again and again
                                               ←   MEMBERS    the list, and the name of the new job
                                               ←   ELSEWHERE  it has found a lower rank itself
                                               ←   WENT_ON    it does not wait any more, but has gone on
                                               ←   REFUSED    too few have come

Who has found nobody lower leads. It makes the list when all have come that are not dead, gone or doubted, or when its
patience ends. Nobody waits in two places, so nobody is on two lists; and a list is made only if the rest cannot be as
many (`Census.may_go_on`).
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import suppress
from time import monotonic

from ..config import Address, Settings
from ..errors import DeadlineExceeded, PeerLost
from .census import Census
from .conversation import Loop, Talk, Task, pause, within
from .frames import Channel, Closed, Frame, Garbled, Kind
from .handshake import admit
from .refuge import Refuge
from .refusals import Refused, Why
from .rendezvous import GRACE, Directory, name_ranks
from .roster import Roster
from .strangers import Strangers
from .visitor import SILENCE, Silent, Visitor

BETWEEN_KNOCKS = 0.05
BETWEEN_WORDS = 0.5  # of who is come to
SILENCE_OF_HOST = 5.0  # of who has let us in: it is stopped, or its host is gone

Gone = Callable[[], tuple[list[int], list[int]]]


class Assembly:
    """One rank's part in it."""

    def __init__(
        self, directory: Directory, census: Census, refuge: Refuge, gone: Gone, *, settings: Settings, went_on: str
    ) -> None:
        self.cards, self.secret = directory.cards, directory.secret
        self.census = census
        self.rank, self.size = census.rank, census.size
        self.refuge = refuge
        self.gone = gone
        self.settings = settings
        self.went_on = went_on  # the job as which this rank has gone on itself, if it comes a second time
        self.visitor = Visitor(directory, census.rank)
        self.loop = Loop()
        self.guests: dict[int, Channel] = {}
        self.watchers: dict[int, Task] = {}  # of guests
        self.host: int | None = None  # whom this rank has come to
        self.roster: Roster | None = None
        self.asked: set[int] = set()  # who has left: is somebody there?
        self.higher = 0

    def hold(self, patience: float, deadline: float) -> Roster:
        """Until there is a list with this rank on it. Moments, not seconds."""
        try:
            with self.loop as loop:
                Strangers(self.refuge.sock, settings=self.settings).serve(loop, self.serve)
                loop.start(self.seek())
                loop.run(lambda: self.settled() or (self.leads() and monotonic() >= patience), deadline)
                if self.roster is None:
                    self.roster = self.lead()
                return self.roster
        except TimeoutError:
            host = "nobody" if self.host is None else f"{self.cards[self.host]}, which has not decided"
            raise DeadlineExceeded(
                f"{self.cards[self.rank]} wanted to go on without the lost, and met {host}"
            ) from None
        finally:
            if self.roster is None:
                for channel in self.guests.values():
                    channel.close()

    def settled(self) -> bool:
        """Is there nobody to wait for?"""
        self.look()
        if self.roster:
            return True
        return self.leads() and not self.census.awaited and self.census.may_go_on()

    def leads(self) -> bool:
        return self.host is None

    def look(self) -> None:
        ended, left = self.gone()
        self.census.ended.update(ended)
        self.census.left.update(left)
        for rank in self.census.ended & set(self.guests):
            self.dismiss(rank)
        for rank in self.census.left - self.census.ended - self.asked:
            self.asked.add(rank)
            self.loop.start(self.ask(rank))

    # Whom others come to

    def serve(self, channel: Channel) -> Talk[None]:
        guest = (yield from admit(channel, self.secret, purpose="shrink", rank=self.rank)).rank
        frame = yield from channel.receive(Kind.COME)
        if not 0 <= guest < self.size or guest == self.rank:
            raise Refused(Why.PLACE, f"rank {guest} does not belong here")
        self.census.doubt(rank for rank in frame.get("doubts", list) if isinstance(rank, int))
        self.census.meet(guest)
        if guest < self.rank or self.host is not None:
            yield from channel.send(Kind.ELSEWHERE, {})
            return channel.close()
        if guest in self.guests:
            self.dismiss(guest)
        self.guests[guest] = channel
        self.census.present.add(guest)
        self.watchers[guest] = self.loop.start(self.watch(guest, channel))
        self.loop.start(self.reassure(channel))

    def watch(self, guest: int, channel: Channel) -> Talk[None]:
        """It has nothing to say: what comes is its end."""
        with suppress(Closed, Garbled):
            yield from channel.receive()
        self.forget(guest)

    def reassure(self, channel: Channel) -> Talk[None]:
        with suppress(Closed):
            while True:
                yield from channel.send(Kind.WAIT, {})
                yield pause(BETWEEN_WORDS)

    def dismiss(self, rank: int) -> None:
        self.loop.cancel(self.watchers.pop(rank))
        self.forget(rank)

    def forget(self, rank: int) -> None:
        self.census.present.discard(rank)
        self.asked.discard(rank)  # it may have died
        if rank in self.guests:
            self.guests.pop(rank).close()

    def lead(self) -> Roster:
        """Tells all who have come who they are; or, if they are too few, that they are."""
        self.loop.cancel_all()
        if not self.census.may_go_on():
            self.tell_all(Kind.REFUSED, {"message": self.too_few()})
            raise PeerLost(self.too_few())
        members, job = self.census.members, f"{self.settings.job}.{secrets.token_hex(4)}"
        self.tell_all(Kind.MEMBERS, {"members": members, "job": job})
        return Roster(members, job, Address(self.cards[self.rank].addresses[0], self.refuge.port), self.guests)

    def too_few(self) -> str:
        members, absent = self.census.members, sorted(self.census.absent)
        return (
            f"only {name_ranks(members)} of {self.size} came to go on without the lost, and {name_ranks(absent)} "
            f"{'is' if len(absent) == 1 else 'are'} not known to be dead: the others may go on without "
            f"{name_ranks(members)}"
        )

    def tell_all(self, kind: Kind, body: dict[str, object]) -> None:
        tasks = [self.loop.start(_quietly(channel, kind, body)) for channel in self.guests.values()]
        with suppress(TimeoutError):
            self.loop.run(lambda: all(task.done for task in tasks), monotonic() + GRACE)

    # Who comes to others

    def seek(self) -> Talk[None]:
        while True:
            for rank in self.doors():
                yield from self.knock(rank)
                if self.roster:
                    return
            yield pause(BETWEEN_KNOCKS)

    def doors(self) -> Iterator[int]:
        """All lower ranks, and one of the higher: it might say that it went on."""
        for rank in range(self.rank):
            if self.may_open(rank):
                yield rank
        higher = [rank for rank in range(self.rank + 1, self.size) if self.may_open(rank)]
        if higher:
            self.higher += 1
            yield higher[self.higher % len(higher)]

    def may_open(self, rank: int) -> bool:
        census = self.census
        left = rank in census.left and rank not in census.met
        return not left and rank not in census.dead and rank not in self.guests

    def knock(self, rank: int) -> Talk[None]:
        try:
            channel, where = yield from self.visitor.visit(rank, sorted(self.census.doubted))
        except (OSError, Silent):
            return
        try:
            yield from self.stay(rank, channel, where)
        except TimeoutError:
            self.census.lose_sight_of(rank)
        except (Closed, Garbled):
            self.asked.discard(rank)  # it may have died
        finally:
            self.host = None
            if not self.roster:
                channel.close()

    def stay(self, rank: int, channel: Channel, where: Address) -> Talk[None]:
        """Until it has a list, or sends us away."""
        kinds = (Kind.WAIT, Kind.ELSEWHERE, Kind.MEMBERS, Kind.WENT_ON)
        while not self.roster:
            frame = yield from within(SILENCE_OF_HOST, channel.receive(*kinds))
            if frame.kind is Kind.ELSEWHERE:
                self.census.meet(rank)
                return
            if frame.kind is Kind.WENT_ON:
                return self.hear_that_it_went_on(frame)
            if frame.kind is Kind.REFUSED:
                raise PeerLost(str(frame.body.get("message")))
            if frame.kind is Kind.WAIT and self.host is None:
                self.census.meet(rank)
                self.host = rank
                self.send_guests_away()
            if frame.kind is Kind.MEMBERS:
                self.roster = Roster.read(frame, self.rank, rank, where, channel)

    def send_guests_away(self) -> None:
        for rank, channel in list(self.guests.items()):
            with suppress(Closed):
                next(channel.send(Kind.ELSEWHERE, {}), None)  # goes if there is room for it
            self.dismiss(rank)

    def hear_that_it_went_on(self, frame: Frame) -> None:
        if frame.get("job", str) == self.went_on:
            return  # so did we
        others = [rank for rank in frame.get("members", list) if isinstance(rank, int) and rank != self.rank]
        raise PeerLost(
            f"{name_ranks(others)} went on without {self.cards[self.rank]}, which was lost to them or came too late to "
            "shrink(). It cannot join them any more: end this process, or start a new job"
        )

    def ask(self, rank: int) -> Talk[None]:
        """Is a rank that has left dead? Only if nobody is where it would listen."""
        while rank not in self.guests:
            try:
                channel, _ = yield from self.visitor.visit(rank, sorted(self.census.doubted))
            except Silent:
                yield pause(BETWEEN_WORDS)
                continue
            except OSError:
                self.census.buried.add(rank)
                return
            try:
                frame = yield from within(SILENCE, channel.receive(Kind.WAIT, Kind.ELSEWHERE, Kind.WENT_ON))
                if frame.kind is Kind.WENT_ON:
                    self.hear_that_it_went_on(frame)
                else:
                    self.census.meet(rank)  # from here on, it is like all others
                    return
            except (Closed, Garbled, TimeoutError):
                pass
            finally:
                channel.close()
            yield pause(BETWEEN_WORDS)


def _quietly(channel: Channel, kind: Kind, body: dict[str, object]) -> Talk[None]:
    with suppress(Closed):
        yield from channel.send(kind, body)
