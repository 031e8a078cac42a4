"""Tables of parameters, as a worker has them: dense arrays here, rows by key in `sparse`."""

from __future__ import annotations

from contextlib import suppress
from math import prod
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal, overload
from zlib import crc32

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from ..errors import ConfigError, MismatchError, UnisonoError
from .arguments import (
    DTYPES,
    checked_consistency,
    checked_target,
    converted,
    dtype_of,
    scale_of,
    seed_of,
    shape_of,
    start_of,
    wire_of,
)  # fmt: skip
from .carried import Carried, Clock
from .consistency import KINDS, Consistency
from .handle import Handle
from .reads import Read, Reads
from .rules import Rule, describe

if TYPE_CHECKING:
    from .. import _native
    from .._native import Asked, ParameterWorker
    from .waiting import Waiting

FAREWELL = 2.0  # seconds for taking back what one shard has refused
_INITS = {"constant": 0, "uniform": 1, "given": 2}


class Table:
    """What dense and sparse tables have in common."""

    def __init__(
        self,
        worker: ParameterWorker,
        waiting: Waiting,
        rank: int,
        name: str,
        number: int,
        extent: Any,
        *,
        dtype: DTypeLike,
        wire: DTypeLike | None,
        update: str | type[Rule],
        consistency: Consistency,
        init: ArrayLike | str,
        scale: float,
        seed: int,
        options: dict[str, Any],
    ) -> None:
        self.name = name
        self.dtype = dtype_of(name, dtype)
        self.consistency = consistency = checked_consistency(name, consistency)
        extent = self._measure(extent)
        self._worker, self._waiting, self._rank, self._number = worker, waiting, rank, number
        self._what = f"of table '{name}'"
        self.reads = Reads(rank, consistency.bound if consistency.clocked else None)
        rule = describe(update, options)
        start, first, given = self._start(init, scale)
        self._described: dict[str, object] = {
            "name": name,
            "dtype": DTYPES.index(str(self.dtype)),
            "wire": DTYPES.index(wire_of(name, wire, self.dtype)),
            "update": rule.update,
            "rates": rule.rates,
            "rule": rule.rule,
            "slots": rule.slots,
            "consistency": KINDS.index(consistency.kind),
            "bound": consistency.bound,
            "init": _INITS[start],
            "start": first,
            "seed": crc32(given.tobytes()) if start == "given" else seed_of(name, seed),
        }
        self._begun: list[Asked] = []  # what a clock waits for
        self._lock = Lock()  # of it
        self._clock = Clock()
        self._withdrawing: Asked | None = None
        self._prepared: Asked | None = None
        self._committing: Asked | None = None
        self._native: Any = self._make(extent)
        asked = self._native.create(_bytes(given))
        try:
            waiting.wait(asked, f"create {self._what}")
            waiting.wait(self._native.confirm(), f"create {self._what}")
        except BaseException as error:
            self._abandon(error)
            raise
        self._native.created(asked)

    def _abandon(self, error: BaseException) -> None:
        """No shard keeps what another has refused. It is waited for where all of them answer."""
        with suppress(UnisonoError):
            asked = self._native.abandon()
            if isinstance(error, ConfigError | MismatchError):
                self._waiting.wait(asked, f"create {self._what}", FAREWELL, explain=False)

    def _measure(self, extent: Any) -> Any:
        raise NotImplementedError

    def _make(self, extent: Any) -> Any:
        raise NotImplementedError

    def _given(self, values: Any) -> np.ndarray:
        raise NotImplementedError

    def _start(self, init: ArrayLike | str, scale: float) -> tuple[str, float, np.ndarray]:
        nothing = np.empty(0, np.uint8)
        if isinstance(init, str) and init == "uniform":
            return "uniform", scale_of(self.name, scale), nothing
        if isinstance(init, np.ndarray | list | tuple):
            return "given", 0.0, self._given(init)
        return "constant", start_of(self.name, init, self.dtype), nothing

    @property
    def now(self) -> int:
        """How many clocks this worker has committed."""
        clock: int = self._native.clock
        return clock

    def clock(self, *, deadline: float | None = None) -> None:
        """Ends this worker's clock: what it pushed is acknowledged, and counts on all shards or on none. If a deadline
        ends the call, another one goes on with it."""
        what = f"clock {self._what}"
        self._end_begun(what, deadline)
        if self._withdrawing is not None:
            self._waiting.go_on(self._withdrawing, what, deadline)
            self._withdrawing = None
        if self._prepared is None:
            self._prepared = self._native.prepare()
        try:
            self._waiting.go_on(self._prepared, what, deadline)
        except ConfigError as error:
            if self._prepared.failed:
                raise self._begin_again(error) from None
            raise
        if self._committing is None:
            self._committing = self._native.commit()
        self._waiting.go_on(self._committing, what, deadline)
        self._prepared = self._committing = None
        self._native.committed()
        self._clock.committed = True
        self._clock = Clock()

    def _end_begun(self, what: str, deadline: float | None) -> None:
        """Pulls: under bsp, servers send from the table itself, which the next clock changes. Pushes: an asynchronous
        table has those of a clock when the clock is committed."""
        with self._lock:
            begun = list(self._begun)
        for asked in begun:
            try:
                self._waiting.go_on(asked, what, deadline)
            except ConfigError:
                if not asked.failed:
                    raise  # else its handle says why

    def _begin_again(self, why: ConfigError) -> ConfigError:
        """A shard could not hold its part, so that no other may: the pushes of this clock are forgotten."""
        error = ConfigError(f"{why}. What was pushed in this clock is forgotten; the table goes on")
        self._clock.refused = error
        self._clock = Clock()
        self._prepared = None
        self._withdrawing = self._native.withdraw()
        return error

    def report(self) -> str:
        """How stale this worker's reads were, and whom it waited for."""
        return self.reads.summary(self.name, str(self.consistency))

    def _under_way(self, asked: Asked) -> Asked:
        with self._lock:
            self._begun = [other for other in self._begun if not other.done]
            self._begun.append(asked)
        return asked

    def _started(self, asked: Asked, what: str, *memory: object) -> Handle[None]:
        return Handle(self._waiting, asked, f"{what} {self._what}", lambda _: None, *memory)

    def _pushed(self, asked: Asked, values: np.ndarray) -> Handle[None]:
        if self.consistency.clocked:
            return Carried(self._clock, f"a push {self._what}")
        return self._started(self._under_way(asked), "push", values)

    def _pulled(self, asked: Asked, what: str, target: np.ndarray, *memory: object) -> Handle[np.ndarray]:
        def finish(answered: Asked) -> np.ndarray:
            self.reads.note(answered.read)
            return target

        return Handle(self._waiting, self._under_way(asked), f"{what} {self._what}", finish, target, *memory)

    def _news(self) -> None:
        if self.consistency.kind == "essp":
            self._worker.take_news()


class DenseTable(Table):
    """An array; a large one is split over all shards."""

    def _measure(self, extent: Any) -> int:
        self.shape = shape_of(self.name, extent)
        return prod(self.shape)

    def _make(self, extent: int) -> _native.DenseTable:
        return self._worker.dense(self._number, **self._described, extent=extent, whole=extent)

    def _given(self, values: Any) -> np.ndarray:
        return self._checked(values, "init")

    def push(self, gradient: ArrayLike, *, deadline: float | None = None) -> None:
        """Adds to what this worker will commit with its clock; in an asynchronous table it is applied at once, and
        acknowledged when this returns."""
        values = self._checked(gradient, "a gradient")
        asked = self._native.push(_bytes(values))
        if not self.consistency.clocked:
            self._waiting.wait(self._under_way(asked), f"push {self._what}", deadline)

    def push_async(self, gradient: ArrayLike) -> Handle[None]:
        """The same, without waiting. In an asynchronous table, the array must stay as it is until the handle is done;
        in another one it was copied, and the handle is done with the clock."""
        values = self._checked(gradient, "a gradient")
        return self._pushed(self._native.push(_bytes(values)), values)

    @overload
    def pull(
        self, out: np.ndarray | None = None, *, info: Literal[False] = False, deadline: float | None = None
    ) -> np.ndarray: ...
    @overload
    def pull(
        self, out: np.ndarray | None = None, *, info: Literal[True], deadline: float | None = None
    ) -> tuple[np.ndarray, Read]: ...
    def pull(
        self, out: np.ndarray | None = None, *, info: bool = False, deadline: float | None = None
    ) -> np.ndarray | tuple[np.ndarray, Read]:
        """The values, as fresh as the consistency promises. With ``info``, also how fresh they are: servers are asked
        then, whatever is here."""
        target, now = self._target(out), self.now
        self._news()
        asked = self._native.pull(_bytes(target), info)
        self._waiting.wait(asked, f"pull {self._what}", deadline)
        self.reads.note(asked.read)
        return (target, self.reads.describe(now, asked.read)) if info else target

    def pull_async(self, out: np.ndarray | None = None) -> Handle[np.ndarray]:
        """A pull that goes on by itself; the handle's ``wait`` has the array."""
        target = self._target(out)
        return self._pulled(self._native.pull(_bytes(target), False), "pull", target)

    def prefetch(self) -> Handle[None]:
        """Fetches what a pull would have to wait for; of use where reads may be stale, as these are served here."""
        return self._started(self._under_way(self._native.pull(np.empty(0, np.uint8), False)), "prefetch")

    def push_pull(
        self, gradient: ArrayLike, out: np.ndarray | None = None, *, deadline: float | None = None
    ) -> np.ndarray:
        """A push, and a pull of what came of it. In an asynchronous table one goes while the other comes."""
        target = self._target(out)
        if self.consistency.clocked:
            self.push(gradient)
            return self.pull(target, deadline=deadline)
        values = self._checked(gradient, "a gradient")
        asked = self._under_way(self._native.push_pull(_bytes(values), _bytes(target)))
        self._waiting.wait(asked, f"push_pull {self._what}", deadline)
        self.reads.note(asked.read)
        return target

    def push_pull_async(self, gradient: ArrayLike, out: np.ndarray | None = None) -> Handle[np.ndarray]:
        """The same, without waiting; the handle's ``wait`` has the array. In an asynchronous table the push is
        acknowledged then; in another one it was copied, and clock() acknowledges it."""
        target = self._target(out)
        if self.consistency.clocked:
            self.push(gradient)
            return self.pull_async(target)
        values = self._checked(gradient, "a gradient")
        return self._pulled(self._native.push_pull(_bytes(values), _bytes(target)), "push_pull", target, values)

    def _target(self, out: np.ndarray | None) -> np.ndarray:
        return checked_target(self.name, out, self.shape, self.dtype)

    def _checked(self, array: ArrayLike, what: str) -> np.ndarray:
        values = converted(self.name, what, array, self.dtype)
        if values.shape != self.shape:
            raise ConfigError(f"table {self.name!r}: {what} of shape {values.shape}, where the table is {self.shape}")
        return values


def _bytes(array: np.ndarray) -> np.ndarray:
    """The memory, as it is."""
    return array.reshape(-1).view(np.uint8)
