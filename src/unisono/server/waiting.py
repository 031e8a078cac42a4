"""Until an answer is here: connections that break are made again, and who waits too long is told for whom."""

from __future__ import annotations

import json
from collections.abc import Callable
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Any, NoReturn

from ..errors import ConfigError, DeadlineExceeded, MismatchError, PeerLost, UnisonoError

if TYPE_CHECKING:
    from .._native import Asked, ParameterWorker

TO_EXPLAIN = 2.0  # seconds for asking whom the others wait for
_TROUBLES: dict[int, type[UnisonoError]] = {1: ConfigError, 2: MismatchError, 3: PeerLost}


class Waiting:
    """For the answers to one worker."""

    def __init__(self, worker: ParameterWorker, name: str, redial: Callable[[int], None], deadline: float) -> None:
        self._worker = worker
        self._name = name
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
        """Until it is done. What servers refuse is raised, and after the deadline, who is awaited."""
        seconds = self._deadline if deadline is None else deadline
        until = monotonic() + seconds
        try:
            while (state := self._worker.wait(asked, max(0.0, until - monotonic()))) != "done":
                if state == "late":
                    self._worker.let_go(asked)
                    self._late(what, seconds, explain)
                self._reconnect(what)
        except BaseException:
            self._worker.let_go(asked)
            raise
        if asked.failed:
            self._refused(asked, what)

    def _reconnect(self, what: str) -> None:
        for shard in self._worker.detached():
            why = self._worker.why_detached(shard)
            try:
                self._redial(shard)
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

    def _late(self, what: str, seconds: float, explain: bool) -> NoReturn:
        awaited = self._awaited(what) if explain else ""
        raise DeadlineExceeded(f"{self._name} waited {seconds:g} s in {what}{awaited}")

    def _awaited(self, what: str) -> str:
        try:
            status = self.status(TO_EXPLAIN)
        except UnisonoError as error:
            return f"; the servers do not say for whom: {error}"
        table = what.partition("'")[2].partition("'")[0]
        clocks = status["tables"].get(table, {}).get("clocks", {})
        slowest = status["tables"].get(table, {}).get("slowest")
        names = [
            f"worker {worker} at clock {clock}{_STATES.get(status['members'].get(worker, ''), '')}"
            for worker, clock in clocks.items()
            if clock == slowest
        ]
        return f"; the slowest: {', '.join(names)}" if names else ""

    def status(self, deadline: float | None = None) -> dict[str, Any]:
        """What the coordinator knows: members, the clocks of tables, who waited for whom."""
        asked = self._worker.request("status")
        self.wait(asked, "status", deadline, explain=False)
        result: dict[str, Any] = json.loads(asked.text)
        return result


def _refuse(shard: int) -> None:
    raise PeerLost(f"shard {shard} is not connected again after the end")


_STATES = {"expected": ", which has not come yet", "broken": ", whose connection broke"}
