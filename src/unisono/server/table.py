"""Tables of parameters, as a worker has them: dense arrays here, rows by key in `sparse`."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, Literal, overload
from zlib import crc32

import numpy as np
from numpy.typing import DTypeLike

from ..errors import ConfigError
from ..values import nearest
from .consistency import KINDS, Consistency
from .handle import Handle
from .reads import Read, Reads
from .rules import Rule, describe

if TYPE_CHECKING:
    from .. import _native
    from .._native import Asked, ParameterWorker
    from .waiting import Waiting

# The numbers of native/base/dtype.hpp.
DTYPES = (
    "float64", "float32", "float16", "bfloat16", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32",
    "uint64",
)  # fmt: skip
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
        wire: str | None,
        update: str | type[Rule],
        consistency: Consistency,
        init: float | np.ndarray | str,
        scale: float,
        seed: int,
        options: dict[str, Any],
    ) -> None:
        self.name = name
        self.dtype = np.dtype(dtype)
        self.consistency = consistency
        self._worker, self._waiting, self._rank, self._number = worker, waiting, rank, number
        self._what = f"of table '{name}'"
        self.reads = Reads(rank, consistency.bound if consistency.clocked else None)
        rule = describe(update, options)
        start, first, given = self._start(init, scale, seed)
        self._described: dict[str, object] = {
            "name": name,
            "dtype": _number_of(name, str(self.dtype)),
            "wire": _number_of(name, wire or str(self.dtype)),
            "update": rule.update,
            "rates": rule.rates,
            "rule": rule.rule,
            "slots": rule.slots,
            "consistency": KINDS.index(consistency.kind),
            "bound": consistency.bound,
            "init": _INITS[start],
            "start": first,
            "seed": crc32(given.tobytes()) if start == "given" else seed,
        }
        self._pulls: list[Asked] = []  # under way
        self._prepared: Asked | None = None
        self._committing: Asked | None = None
        self._native: Any = self._make(extent)
        asked = self._native.create(_bytes(given))
        waiting.wait(asked, f"create {self._what}")
        self._native.created(asked)

    def _make(self, extent: Any) -> Any:
        raise NotImplementedError

    def _start(self, init: float | np.ndarray | str, scale: float, seed: int) -> tuple[str, float, np.ndarray]:
        nothing = np.empty(0, np.uint8)
        if isinstance(init, str):
            if init != "uniform":
                raise ConfigError(f"table {self.name!r}: init={init!r} is neither 'uniform', a number nor an array")
            return "uniform", float(scale), nothing
        if isinstance(init, np.ndarray):
            return "given", 0.0, np.ascontiguousarray(init, self.dtype)
        return "constant", float(init), nothing

    @property
    def now(self) -> int:
        """How many clocks this worker has committed."""
        clock: int = self._native.clock
        return clock

    def clock(self, *, deadline: float | None = None) -> None:
        """Ends this worker's clock: what it pushed is acknowledged, and counts on all shards or on none. If a deadline
        ends the call, another one goes on with it."""
        what = f"clock {self._what}"
        for asked in self._pulls:  # under bsp, servers send from the table itself, which the next clock changes
            self._waiting.wait(asked, what, deadline)
        self._pulls.clear()
        if self._prepared is None:
            self._prepared = self._native.prepare()
        self._waiting.wait(self._prepared, what, deadline)
        if self._committing is None:
            self._committing = self._native.commit()
        self._waiting.wait(self._committing, what, deadline)
        self._prepared = self._committing = None
        self._native.committed()

    def report(self) -> str:
        """How stale this worker's reads were, and whom it waited for."""
        return self.reads.summary(self.name, str(self.consistency))

    def _under_way(self, asked: Asked) -> Asked:
        self._pulls = [other for other in self._pulls if not other.done]
        self._pulls.append(asked)
        return asked

    def _started(self, asked: Asked, what: str, *memory: object) -> Handle[None]:
        return Handle(self._waiting, asked, f"{what} {self._what}", lambda _: None, *memory)

    def _news(self) -> None:
        if self.consistency.kind == "essp":
            self._worker.take_news()


class DenseTable(Table):
    """An array; a large one is split over all shards."""

    def _make(self, extent: Any) -> _native.DenseTable:
        self.shape = (extent,) if isinstance(extent, int) else tuple(extent)
        if not all(isinstance(x, int) and x >= 0 for x in self.shape):
            raise ConfigError(f"table {self.name!r}: shape={extent!r} is no shape")
        if self._described["init"] == _INITS["given"] and self._given.size != prod(self.shape):
            raise ConfigError(f"table {self.name!r}: init has {self._given.size} elements, shape {self.shape}")
        whole = prod(self.shape)
        return self._worker.dense(self._number, **self._described, extent=whole, whole=whole)

    def _start(self, init: float | np.ndarray | str, scale: float, seed: int) -> tuple[str, float, np.ndarray]:
        start, first, self._given = super()._start(init, scale, seed)
        return start, first, self._given

    def push(self, gradient: np.ndarray, *, deadline: float | None = None) -> None:
        """Adds to what this worker will commit with its clock; in an asynchronous table it is applied at once, and
        acknowledged when this returns."""
        values = self._checked(gradient, "a gradient")
        asked = self._native.push(_bytes(values))
        if not self.consistency.clocked:
            self._waiting.wait(asked, f"push {self._what}", deadline)

    def push_async(self, gradient: np.ndarray) -> Handle[None]:
        """The same, without waiting; the array must stay as it is until the handle is done."""
        values = self._checked(gradient, "a gradient")
        return self._started(self._native.push(_bytes(values)), "push", values)

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
        asked = self._under_way(self._native.pull(_bytes(target), False))

        def finish(answered: Asked) -> np.ndarray:
            self.reads.note(answered.read)
            return target

        return Handle(self._waiting, asked, f"pull {self._what}", finish, target)

    def prefetch(self) -> Handle[None]:
        """Fetches what a pull would have to wait for; of use where reads may be stale, as these are served here."""
        return self._started(self._under_way(self._native.pull(np.empty(0, np.uint8), False)), "prefetch")

    def push_pull(
        self, gradient: np.ndarray, out: np.ndarray | None = None, *, deadline: float | None = None
    ) -> np.ndarray:
        """A push, and a pull of what came of it. In an asynchronous table one goes while the other comes."""
        if self.consistency.clocked:
            self.push(gradient)
            return self.pull(out, deadline=deadline)
        values, target = self._checked(gradient, "a gradient"), self._target(out)
        asked = self._native.push_pull(_bytes(values), _bytes(target))
        self._waiting.wait(asked, f"push_pull {self._what}", deadline)
        self.reads.note(asked.read)
        return target

    def _target(self, out: np.ndarray | None) -> np.ndarray:
        if out is None:
            return np.empty(self.shape, self.dtype)
        if out.shape != self.shape or out.dtype != self.dtype or not (out.flags.c_contiguous and out.flags.writeable):
            raise ConfigError(
                f"table {self.name!r}: out has to be a writeable, contiguous array of {self.dtype} {self.shape}, not "
                f"{out.dtype} {out.shape}"
            )
        return out

    def _checked(self, array: np.ndarray, what: str) -> np.ndarray:
        values = np.ascontiguousarray(array, self.dtype)
        if values.shape != self.shape:
            raise ConfigError(f"table {self.name!r}: {what} of shape {values.shape}, where the table is {self.shape}")
        return values


def _bytes(array: np.ndarray) -> np.ndarray:
    """The memory, as it is."""
    return array.reshape(-1).view(np.uint8)


def _number_of(table: str, dtype: str) -> int:
    if dtype not in DTYPES:
        raise ConfigError(f"table {table!r}: {dtype} is not one of {', '.join(DTYPES)}{nearest(dtype, DTYPES)}")
    return DTYPES.index(dtype)
