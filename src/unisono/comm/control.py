"""The star that remains after the ranks have met: one connection from every rank to rank 0, for small messages.

Here it carries what ranks agree on while a communicator is made. Whoever fails says so (`abort`); rank 0 passes it on,
so every rank raises the same first cause. From then on the connections belong to the lookout.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from math import inf
from time import monotonic
from typing import Any, NoReturn

from ..errors import ConfigError, DeadlineExceeded, MismatchError, PeerLost, UnisonoError
from .conversation import Loop, Talk
from .frames import Channel, Closed, Frame, Garbled, Kind

FLOOD = 1.0  # seconds that telling the others about a failure may take
_ERRORS = {kind.__name__: kind for kind in (ConfigError, DeadlineExceeded, MismatchError, PeerLost)}


class Control:
    """Rank 0 has a channel to everybody, everybody else one to rank 0. `names` say who a rank is, in errors."""

    def __init__(self, rank: int, names: Sequence[str], channels: Mapping[int, Channel]) -> None:
        self.rank = rank
        self.size = len(names)
        self.names = list(names)
        self.channels = dict(channels)
        self.failure: UnisonoError | None = None
        self.closed = False
        self._exchanges = 0

    def send(self, value: Any, *, to: int = 0, deadline: float | None = None) -> None:
        """A small JSON value from rank 0 to a rank, or from a rank to rank 0."""
        self._run({to: self.post(to, Kind.MESSAGE, {"value": value})}, deadline, "take a message")

    def receive(self, *, source: int = 0, deadline: float | None = None) -> Any:
        """The next value from there."""
        frame = self._run({source: self._next(source)}, deadline, "send a message")[source]
        if "exchange" in frame.body:
            self._fail(MismatchError(f"{self.names[source]} is in an exchange, {self.names[self.rank]} in a receive"))
        return frame.body.get("value")

    def exchange(self, value: Any, *, deadline: float | None = None) -> list[Any]:
        """Everybody's value, by rank, on every rank. Seconds until the deadline."""
        number = self._exchanges
        self._exchanges += 1
        if self.size == 1:
            self._usable()
            return [value]
        if self.rank:
            self._run({0: self.post(0, Kind.MESSAGE, {"exchange": number, "value": value})}, deadline, "take its part")
            answer = self._run({0: self._next(0)}, deadline, "answer an exchange")[0]
            self._same_exchange(0, answer, number)
            values: list[Any] = answer.get("values", list)
            return values
        parts = self._run({rank: self._next(rank) for rank in self.channels}, deadline, "come to an exchange")
        for rank, part in parts.items():
            self._same_exchange(rank, part, number)
        values = [value, *(parts[rank].body.get("value") for rank in range(1, self.size))]
        body = {"exchange": number, "values": values}
        self._run({rank: self.post(rank, Kind.MESSAGE, body) for rank in self.channels}, deadline, "take an answer")
        return values

    def abort(self, error: UnisonoError) -> None:
        """Tells everybody that can be told why this ends here. The first cause counts. Never raises."""
        first, self.failure = not self.failure, self.failure or error
        if first:
            self._flood(error)

    def _flood(self, error: UnisonoError) -> None:
        body = {"error": type(error).__name__, "message": str(error)[:100_000], "by": self.rank}
        with suppress(Exception), Loop() as loop:
            waiting = [
                loop.start(_quietly(channel.send(Kind.ABORT, body)))
                for channel in self.channels.values()
                if channel.sock.fileno() >= 0
            ]
            loop.run(lambda: all(task.done for task in waiting), monotonic() + FLOOD)

    def close(self) -> None:
        """Says goodbye and hangs up; may be called twice."""
        if self.closed:
            return
        self.closed = True
        for channel in self.channels.values():
            with suppress(Exception):
                next(channel.send(Kind.BYE, {}), None)  # goes if there is room for it; nobody waits
        self.hang_up()

    def hang_up(self) -> None:
        """Without a word."""
        self.closed = True
        for channel in self.channels.values():
            channel.close()

    def read(self, rank: int, *expected: Kind) -> Talk[Frame]:
        """The next frame of a rank; its death, departure or failure is raised as an error that names it."""
        try:
            frame = yield from self.channels[rank].receive(*expected, Kind.ABORT, Kind.BYE)
        except (Closed, Garbled) as error:
            raise self.lost(rank, str(error)) from None
        if frame.kind is Kind.ABORT:
            cause = _ERRORS.get(str(frame.body.get("error")), UnisonoError)(str(frame.body.get("message")))
            if self.rank:
                self.failure = self.failure or cause  # rank 0 has told everybody
            raise cause
        if frame.kind is Kind.BYE:
            raise self.lost(rank, "it closed its communicator")
        return frame

    def lost(self, rank: int, why: str) -> PeerLost:
        return PeerLost(f"{self.names[self.rank]} lost {self.names[rank]}: {why}")

    def post(self, rank: int, kind: Kind, body: dict[str, Any]) -> Talk[None]:
        """A frame to a rank."""
        try:
            yield from self.channels[rank].send(kind, body)
        except Closed as error:
            # Its last words are in our buffer, and are the better cause.
            yield from self.read(rank, *Kind)
            raise self.lost(rank, str(error)) from None

    def _next(self, rank: int) -> Talk[Frame]:
        return self.read(rank, Kind.MESSAGE)

    def _run(self, talks: Mapping[int, Talk[Any]], deadline: float | None, what: str) -> dict[int, Any]:
        """All of these at once; what they return, by rank. A failure is everybody's."""
        self._usable()
        results: dict[int, Any] = {}

        def keep(rank: int, talk: Talk[Any]) -> Talk[None]:
            results[rank] = yield from talk

        seconds = inf if deadline is None else deadline
        try:
            with Loop() as loop:
                for rank, talk in talks.items():
                    loop.start(keep(rank, talk))
                loop.run(lambda: len(results) == len(talks), monotonic() + seconds)
        except TimeoutError:
            missing = ", ".join(self.names[rank] for rank in talks if rank not in results)
            self._fail(DeadlineExceeded(f"{self.names[self.rank]} waited {seconds:g} s for {missing} to {what}"))
        except UnisonoError as error:
            self._fail(error)
        except BaseException:  # half a frame may be on its way: nothing can follow it
            self.abort(PeerLost(f"{self.names[self.rank]} was interrupted"))
            raise
        return results

    def _same_exchange(self, rank: int, frame: Frame, number: int) -> None:
        theirs = frame.body.get("exchange")
        if theirs != number:
            they = "a message" if theirs is None else f"exchange #{theirs}"
            self._fail(MismatchError(f"{self.names[self.rank]} is in exchange #{number}, {self.names[rank]} in {they}"))

    def _usable(self) -> None:
        if self.failure:
            raise self.failure
        if self.closed:
            raise UnisonoError("this communicator is closed")

    def _fail(self, error: UnisonoError) -> NoReturn:
        self.abort(error)
        raise error


def _quietly(talk: Talk[None]) -> Talk[None]:
    with suppress(Closed, TimeoutError):
        yield from talk
