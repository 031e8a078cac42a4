"""Until an answer is here: connections that break are made again, and who waits too long is told for whom."""

from __future__ import annotations

import json
from collections.abc import Callable
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Any, NoReturn

from ..comm.arguments import seconds as checked_seconds
from ..errors import ConfigError, DeadlineExceeded, MismatchError, PeerLost, UnisonoError
from .dial import Unanswered

if TYPE_CHECKING:
    from .._native import Asked, ParameterWorker

AGAIN = 1.0  # seconds for a server to answer at a time after its connection broke
TO_EXPLAIN = 2.0  # seconds for asking whom the others wait for
_TROUBLES: dict[int, type[UnisonoError]] = {1: ConfigError, 2: MismatchError, 3: PeerLost}


class Waiting:
    """For the answers to one worker."""

    def __init__(
        self,
        worker: ParameterWorker,
        rank: int,
        name: str,
        threads: int,
        redial: Callable[[int, float], None],
        deadline: float,
    ) -> None:
        self._worker = worker
        self._rank = str(rank)
        self._name = name
        self._threads = threads  # of each server
        self._redial = redial
        self._deadline = deadline
        self._lock = Lock()
        self._kept: list[tuple[Asked, object]] = []
        self.failure: UnisonoError | None = None

    def keep(self, asked: Asked, memory: object) -> None:
        """The memory is used by requests until they are answered, whoever else forgets it."""
        with self._lock:
            self._kept = [(other, kept) for other, kept in self._kept if not other.done]
            self._kept.append((asked, memory))
        if not asked.done:
            self._worker.in_background()

    def close(self) -> None:
        """Nothing is connected again: what it knew of its owner is let go of."""
        self._redial = _refuse

    def wait(self, asked: Asked, what: str, deadline: float | None = None, *, explain: bool = True) -> None:
        """Until it is done. What servers refuse is raised, and after the deadline, who is awaited. Whatever the end,
        its memory is its owner's again."""
        try:
            seconds = self._until_done(asked, what, deadline)
        except BaseException:
            self._worker.let_go(asked)
            raise
        if seconds is not None:
            self._worker.let_go(asked)
            self._late(asked, what, seconds, explain)

    def go_on(self, asked: Asked, what: str, deadline: float | None = None) -> None:
        """The same for what keeps its memory until it is done: whoever was interrupted may wait again."""
        if (seconds := self._until_done(asked, what, deadline)) is not None:
            self._late(asked, what, seconds, explain=True)

    def _until_done(self, asked: Asked, what: str, deadline: float | None) -> float | None:
        """Nothing when it is done; or the seconds that were too few."""
        seconds = self._deadline if deadline is None else checked_seconds(deadline, or_none_at_all=True)
        until = monotonic() + seconds
        while (state := self._worker.wait(asked, max(0.0, until - monotonic()))) != "done":
            if state == "broken":
                self._reconnect(what, until)
            if monotonic() >= until:
                return seconds
        if asked.failed:
            self._worker.let_go(asked)  # parts of it may still be on their way
            self._refused(asked, what)
        return None

    def _reconnect(self, what: str, until: float) -> None:
        for shard in self._worker.detached():
            why = self._worker.why_detached(shard)
            try:
                self._redial(shard, max(0.0, min(AGAIN, until - monotonic())))
            except Unanswered:  # it stands still, as far as one can know: whoever waits has a deadline
                continue
            except (PeerLost, ConfigError) as error:
                self.failure = self.failure or PeerLost(
                    f"{self._name} lost a parameter server in {what}: {why}; {error}. A job cannot go on without its "
                    "servers: start it again from the last snapshot"
                )
                raise self.failure from None

    def _refused(self, asked: Asked, what: str) -> NoReturn:
        text = asked.text.decode(errors="replace")
        kind = _TROUBLES.get(asked.trouble, UnisonoError)
        error = kind(f"{self._name} in {what}: {text}")
        if kind is PeerLost:
            self.failure = self.failure or error
        raise error

    def _late(self, asked: Asked, what: str, seconds: float, explain: bool) -> NoReturn:
        awaited = self._awaited(asked, what) if explain else ""
        raise DeadlineExceeded(f"{self._name} waited {seconds:g} s in {what}{awaited}")

    def _awaited(self, asked: Asked, what: str) -> str:
        """Servers that have not answered are asked for whom they wait; they may be what is awaited themselves."""
        until = monotonic() + TO_EXPLAIN
        questions = {shard: self._worker.request("status", shard=shard) for shard in self._worker.awaited(asked)}
        reasons: dict[str, None] = {}  # each once, in this order
        for shard, question in questions.items():
            try:
                self.wait(question, "status", max(0.0, until - monotonic()), explain=False)
                reasons.update(dict.fromkeys(self._reasons(json.loads(question.text), what)))
            except UnisonoError:
                reasons[f"{self._server(shard)} does not answer"] = None
        for shard in questions if not reasons else ():  # they answer by now, and nobody else is awaited
            reasons[f"{self._server(shard)} was late"] = None
        return "".join(f"; {reason}" for reason in reasons)

    def _reasons(self, status: dict[str, Any], what: str) -> list[str]:
        table = status["tables"].get(what.partition("'")[2].rpartition("'")[0])
        if not table:
            return [f"{self._server(shard)} has not done its part" for shard in status["snapshot"]]
        if table["clocks"].get(self._rank) == table["slowest"]:
            return []  # nobody is behind
        names = [
            f"worker {worker} at clock {clock}{_STATES.get(status['members'].get(worker, ''), '')}"
            for worker, clock in table["clocks"].items()
            if clock == table["slowest"]
        ]
        return [f"the slowest: {', '.join(names)}"] if names else []

    def _server(self, shard: int) -> str:
        return f"server {shard // self._threads}"

    def status(self, deadline: float | None = None) -> dict[str, Any]:
        """What the coordinator knows: members, the clocks of tables, who waited for whom."""
        asked = self._worker.request("status")
        if (seconds := self._until_done(asked, "status", deadline)) is not None:
            silent = dict.fromkeys(f"; {self._server(shard)} does not answer" for shard in self._worker.awaited(asked))
            raise DeadlineExceeded(f"{self._name} waited {seconds:g} s in status{''.join(silent)}")
        result: dict[str, Any] = json.loads(asked.text)
        return result


def _refuse(shard: int, _: float) -> None:
    raise PeerLost(f"shard {shard} is not connected again after the end")


_STATES = {"expected": ", which has not come yet", "broken": ", whose connection broke"}
