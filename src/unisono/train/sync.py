"""Averages of gradients, for NumPy or any framework."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import isnan, nan
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ..comm.arguments import whole
from ..comm.start import init
from ..errors import ConfigError
from . import usage
from .buckets import bucket_bytes_for
from .lanes import Lane
from .layout import FLOATS, Bucket, bytes_of, dtype_name, in_order, lay_out, parameters_of
from .line import Line
from .places import State
from .report import Report
from .sameness import fingerprint, require_same
from .shares import shares
from .storage import DtypeOf, numpy_dtype, put
from .times import Times
from .under_way import UnderWay

if TYPE_CHECKING:
    from .._native import Variable
    from ..comm.communicator import Communicator
    from ..engine.engine import Engine

UNUSED = ("error", "zero")


class GradientSync:
    """Averages the gradients of named parameters over all ranks, bucket by bucket, while backward goes on.

    ``parameters`` are arrays by name, in the order in which forward uses them. In each step, call ``ready(name,
    gradient)`` as gradients appear and ``wait()`` in the end: it gives the averages, by name.

    - ``engine``: reductions appear there as operations; what uses a gradient may read ``sync.variable(name)``.
    - ``bucket_bytes``: how large a bucket is; by default from the machine model (`unisono.train.buckets`). It is raised
      where there would be more than a few hundred of them, whose times are not kept.
    - ``wire``: the type in which gradients are kept and sent, if not that of the parameters.
    - ``reproducible``: bit for bit what one process computes that adds the ranks' gradients from rank 0 to the last.
    - ``unused``: a parameter without gradient is an ``"error"`` on all ranks, or counts as ``"zero"``.
    - ``priority``: what forward needs first has a lane of its own, and does not wait for what is under way.
    - ``reorder``: after the first step, buckets are made anew, in the order in which gradients came on rank 0.
    - ``others``: what else has to be the same on all ranks, described by name (`have` says so later).
    """

    def __init__(
        self,
        parameters: Mapping[str, Any],
        comm: Communicator | None = None,
        *,
        engine: Engine | None = None,
        bucket_bytes: int | None = None,
        wire: Any = None,
        reproducible: bool = False,
        unused: str = "error",
        priority: bool = False,
        reorder: bool = False,
        dtype_of: DtypeOf = numpy_dtype,
        others: Mapping[str, str] | None = None,
    ) -> None:
        self.parameters = parameters_of(parameters)
        self._wire = None if wire is None else dtype_name(wire)
        if unused not in UNUSED or (self._wire or "float32") not in FLOATS:
            raise ConfigError(f"unused={unused!r}, wire={wire!r}: there are {UNUSED}, and {', '.join(FLOATS)}")
        if bucket_bytes is not None and whole(bucket_bytes, "bucket_bytes") < 1:
            raise ConfigError(f"bucket_bytes={bucket_bytes}: a bucket has at least one byte")
        self._unused, self._dtype_of, self._engine, self._reorders = unused, dtype_of, engine, reorder
        self.comm = init() if comm is None else comm
        self._made_comm = comm is None
        nbytes = bytes_of(self.parameters, self._wire)
        self.bucket_bytes = bucket_bytes_for(self.comm, nbytes, bucket_bytes)
        options = {
            "bucket_bytes": self.bucket_bytes, "wire": self._wire, "reproducible": reproducible, "unused": unused,
            "priority": priority, "reorder": reorder,
        }  # fmt: skip
        self._others, self._common = dict(others or {}), nan
        require_same(self.comm, [str(parameter) for parameter in self.parameters], options, self._others)
        twins = [self.comm.duplicate() for _ in range(2 if priority else 1)]
        self._lanes = [Lane(twin, engine, reproducible=reproducible) for twin in twins]
        self.times = Times()
        self._speeds_before: list[float] = []
        self.unused: list[str] = []  # parameters that had no gradient on some rank, in the last step
        self.unused_everywhere: list[str] = []
        self._accumulates = False
        self._step: UnderWay | None = None
        self.arrangement = 0  # how often places have moved
        self._arrange(list(reversed(range(len(self.parameters)))))

    def _arrange(self, order: Sequence[int]) -> None:
        """Make the buckets, for gradients that come in this order; the numbers are those of ``parameters``."""
        self.order, self._common = list(order), nan
        buckets = lay_out(in_order(self.parameters, order), self.bucket_bytes, self._wire)
        self._line = Line.of(self.parameters, buckets, self._lanes, self._dtype_of, self._engine)
        self._places = self._line.places

    def arrange(self, order: Sequence[int]) -> None:
        """The same in the middle of training: what lies in places moves with them, and `place` gives others."""
        if self._step is not None:
            raise ConfigError("buckets cannot be arranged anew in the middle of a step; wait() first")
        before = self._line.storage.places
        self._arrange(order)
        self.arrangement += 1
        for name, place in self._line.storage.places.items():
            put(place, before[name], add=False)

    @property
    def buckets(self) -> list[Bucket]:
        """In the order in which they are reduced."""
        return self._line.storage.buckets

    def place(self, name: str) -> Any:
        """Where the gradient of a parameter lies: write it there, and say ``ready(name)``. After ``wait()`` it is the
        average."""
        return self._line.storage.places[self._places.parameter(name).name]

    def variable(self, name: str) -> Variable:
        """Of the engine: what is pushed after ``flush()`` and reads it has the average of this parameter's gradient."""
        variable = self._line.variables[self._bucket_of(name)]
        if variable is None:
            raise ConfigError("this GradientSync has no engine: GradientSync(…, engine=engine)")
        return variable

    @property
    def own_comm(self) -> Communicator:
        """A communicator of the same ranks, on which the program makes no calls."""
        return self._lanes[0].comm

    @property
    def is_open(self) -> bool:
        """Is a step under way?"""
        return self._step is not None

    def begin(self, samples: float | None = None) -> None:
        """A step begins, before forward. Gradients are weighted by the ranks' ``samples``, which may be 0 on some.

        Without it, the first ``ready`` begins a step in which all ranks weigh the same.
        """
        if self._step is not None:
            raise ConfigError(f"step {self.times.done} is not over: wait() comes before the next begin()")
        if samples is not None and not 0 <= samples < float("inf"):
            raise ConfigError(f"samples={samples}: a rank has 0 samples or more")
        if isnan(self._common):
            self._common = fingerprint(self.order, self._others)
        weight = None if samples is None else float(samples)
        self._step = UnderWay(self._line, weight, self.times, self._common, self._find_difference)

    def have(self, others: Mapping[str, str]) -> None:
        """What else has to be the same on all ranks from the next step on, described by name."""
        self._others, self._common = dict(others), nan

    def _find_difference(self) -> None:
        """Raises what differs between the ranks, on all of them."""
        order = ", ".join(self.parameters[number].name for number in self.order)
        require_same(self.own_comm, [], {}, {**self._others, "the order of gradients": order})

    def ready(self, name: str, gradient: Any = None) -> None:
        """The gradient of a parameter is here; without ``gradient``, it was written into its place.

        Inside of ``no_sync()`` it is accumulated. A parameter with several names gets one for each of them.
        """
        parameter = self._places.parameter(name)
        if gradient is not None:
            self._require_open_place(name)
            if tuple(gradient.shape) != parameter.shape:
                raise ConfigError(f"the gradient of {name} has shape {tuple(gradient.shape)}, not {parameter.shape}")
            put(self.place(name), gradient, add=self._places.state(parameter) is State.HELD)
        if self._accumulates:
            self.hold(name)
        else:
            self.give(name)

    def give(self, name: str, *, complete: bool = False) -> None:
        """What lies in the place is the gradient for this name; ``complete``, for all names of the parameter."""
        self._require_open_place(name)
        self._places.ready(name, complete=complete)
        self._opened().start_full()

    def hold(self, name: str, *, used: bool = True) -> None:
        """What lies in the place counts, and more may come; not ``used``, if backward did not come there."""
        parameter = self._places.parameter(name)
        self._places.hold(parameter) if used else self._places.carry(parameter)

    def is_ready(self, name: str) -> bool:
        """Has its gradient come in this step?"""
        return self._places.state(self._places.parameter(name)) is State.READY

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Gradients that come in here are accumulated, and averaged with those of the next step outside."""
        before, self._accumulates = self._accumulates, True
        try:
            yield
        finally:
            self._accumulates = before

    @property
    def accumulates(self) -> bool:
        """Inside of ``no_sync()``?"""
        return self._accumulates

    def flush(self) -> None:
        """Backward is over: parameters without gradient are unused here. ``wait()`` does this, too."""
        self._opened().flush()

    def wait(self, *names: str) -> dict[str, Any]:
        """The averages, by name: of all parameters, which ends the step; or of these, as soon as they are there.

        Backward is over then, unless all that these share buckets with has come.
        """
        step = self._opened()
        if names:
            step.wait_for(sorted({self._bucket_of(name) for name in names}))
            return {name: self.place(name) for name in names}
        try:
            step.finish()
            self._check_usage(step)
        finally:
            self._step, seen = None, self._places.came
            self._places.reset()
        if self._reorders:
            self._reorder(seen)
        return {name: self.place(name) for parameter in self.parameters for name in parameter.names}

    def _check_usage(self, step: UnderWay) -> None:
        flags = self._line.storage.flags.tolist()
        missing = usage.partly_used(flags, self.comm.size)
        self.unused = [self.parameters[number].name for number in missing]
        self.unused_everywhere = [self.parameters[number].name for number in missing if not flags[number]]
        if missing and self._unused == "error":
            usage.refuse(self.own_comm, self.parameters, missing, step.unused or [])

    def _reorder(self, seen: Sequence[str]) -> None:
        """Once, as gradients came on rank 0."""
        self._reorders = False
        numbers = self._line.storage.numbers
        order = np.array([numbers[name] for name in (*seen, *(name for name in numbers if name not in seen))], np.int64)
        self.own_comm.broadcast(order)
        if order.tolist() != self.order:
            self.arrange(order.tolist())

    def _opened(self) -> UnderWay:
        if self._step is None:
            self.begin()
        assert self._step is not None
        return self._step

    def _require_open_place(self, name: str) -> None:
        if self.is_ready(name):
            raise ConfigError(
                f"{name} has got its gradient in this step already; wait() ends a step, and of several backward passes "
                "in one step all but the last one are made in no_sync()"
            )

    def _bucket_of(self, name: str) -> int:
        return self._line.storage.bucket_of[self._places.parameter(name).name]

    def report(self) -> Report:
        """How the last steps went, and what limits them. ``print`` it."""
        return Report.of(self.times, self.comm.rank, self.comm.size, self.buckets)

    def shares(self, total: int) -> list[int]:
        """How many of so many samples each rank should take, from the speeds that were measured; the same everywhere.

        Equal shares as long as no step with ``samples=`` is known.
        """
        return shares(total, self.speeds or [1.0] * self.comm.size)

    @property
    def speeds(self) -> list[float]:
        """Samples per second of each rank: as measured, or as said by an earlier run."""
        return self.times.speeds() or self._speeds_before

    @speeds.setter
    def speeds(self, before: Sequence[float]) -> None:
        self._speeds_before = list(before) if len(before) == self.comm.size else []

    def abandon(self, why: str) -> None:
        """Leave the step under way, or do not begin the next one: all ranks raise an error that says why.

        When they have caught it, they may begin the next step.
        """
        self.forget()
        for lane in self._lanes:
            lane.abandon(f"rank {self.comm.rank} has left step {self.times.done}: {why}")

    def forget(self) -> None:
        """The step under way is over: all ranks have raised what was wrong with it."""
        self._step = None
        self._places.reset()

    def close(self) -> None:
        """Give up the lanes. The buckets, and views of them, stay valid."""
        if self._step is not None:
            self.abandon("it closes in the middle of it")
        for lane in self._lanes:
            lane.comm.close()
        if self._made_comm:
            self.comm.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if error is not None and self._step is not None:
            self.abandon(f"it raised {error!r}")
        self.close()
