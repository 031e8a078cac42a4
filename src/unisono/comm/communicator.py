"""The communicator: collectives on the caller's arrays."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from hashlib import blake2b
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._native import Executor, divide, supports
from .._native import Program as NativeProgram
from ..errors import ConfigError
from ..schedule.catalog import find
from ..schedule.ir import Ints
from ..schedule.layout import EqualBlocks, Layout
from ..schedule.schedule import Schedule
from ..tune.select import reduces_in_rank_order, select
from .arrays import Array, readable, writable
from .programs import Programs

OPS = {name: code for code, name in enumerate(("sum", "prod", "min", "max", "and", "or", "xor"))}
"""The operators, numbered as in native/reduce/reduce.hpp."""

MOST_PREPARED = 1024

BUILTINS: dict[Any, str] = {sum: "sum", min: "min", max: "max"}


class Communicator:
    """A group of ranks that communicate. Every rank makes the same calls, in the same order."""

    def __init__(
        self,
        executor: Executor,
        *,
        rank: int,
        size: int,
        local_rank: int = 0,
        hosts: list[str] | None = None,
        deadline: float = 300.0,
        on_close: Callable[[], None] = lambda: None,
    ) -> None:
        self.rank, self.size, self.local_rank = rank, size, local_rank
        self.hosts = hosts or []
        self.deadline = deadline
        self._executor: Executor | None = executor
        self._programs = Programs(rank, size)
        self._on_close = on_close
        self._turn = threading.Lock()
        self._used: Counter[str] = Counter()
        self._prepared: dict[tuple[Any, ...], _Prepared] = {}

    def __repr__(self) -> str:
        return f"<Communicator rank {self.rank} of {self.size}{'' if self._executor else ', closed'}>"

    def __enter__(self) -> Communicator:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Give up all links; further calls raise."""
        with self._turn:
            if self._executor is not None:
                self._executor = None
                self._on_close()

    def allreduce(
        self,
        x: Any,
        op: Any = "sum",
        *,
        out: Any = None,
        algorithm: str | None = None,
        reproducible: bool = False,
        deadline: float | None = None,
    ) -> Any:
        """Reduce x over all ranks; every rank gets the result. ``out=x`` works in place.

        ``reproducible`` reduces from rank 0 to the last, one after the other, whatever the size and the links.
        """
        source, target = self._pair(x, out)
        call = _Call("allreduce", algorithm, op=op, reproducible=reproducible, deadline=deadline)
        self._run(call, source, target, self._whole(source))
        return target.given_back(source)

    def broadcast(self, x: Any, root: int = 0, *, algorithm: str | None = None, deadline: float | None = None) -> Any:
        """Fill x on every rank with the root's."""
        array = readable(x) if isinstance(x, (list, tuple)) else writable(x, "x")
        call = _Call("broadcast", algorithm, root=self._rank(root), deadline=deadline)
        self._run(call, array, array, self._whole(array))
        return array.values.tolist() if isinstance(x, (list, tuple)) else x

    def reduce(
        self,
        x: Any,
        root: int = 0,
        op: Any = "sum",
        *,
        out: Any = None,
        algorithm: str | None = None,
        reproducible: bool = False,
        deadline: float | None = None,
    ) -> Any:
        """Reduce x over all ranks; the root gets the result, the others None."""
        root = self._rank(root)
        source, target = self._pair(x, out if self.rank == root else None)
        call = _Call("reduce", algorithm, root=root, op=op, reproducible=reproducible, deadline=deadline)
        self._run(call, source, target, self._whole(source))
        return target.given_back(source) if self.rank == root else None

    def scan(
        self, x: Any, op: Any = "sum", *, out: Any = None, algorithm: str | None = None, deadline: float | None = None
    ) -> Any:
        """Reduce x over the ranks up to and including this one."""
        source, target = self._pair(x, out)
        self._run(_Call("scan", algorithm, op=op, deadline=deadline), source, target, self._whole(source))
        return target.given_back(source)

    def allgather(self, x: Any, *, out: Any = None, algorithm: str | None = None, deadline: float | None = None) -> Any:
        """Every rank gets all ranks' x, stacked along a new first axis."""
        source = readable(x)
        target = self._target(out, source, (self.size, *source.values.shape))
        layout = EqualBlocks(source.values.nbytes * self.size, self.size, source.values.itemsize)
        self._run(_Call("allgather", algorithm, deadline=deadline), source, target, layout, part_in=True)
        return target.given_back(source)

    def gather(
        self, x: Any, root: int = 0, *, out: Any = None, algorithm: str | None = None, deadline: float | None = None
    ) -> Any:
        """The root gets all ranks' x, stacked along a new first axis; the others get None."""
        root, source = self._rank(root), readable(x)
        shape = (self.size, *source.values.shape) if self.rank == root else (0,)
        target = self._target(out if self.rank == root else None, source, shape)
        layout = EqualBlocks(source.values.nbytes * self.size, self.size, source.values.itemsize)
        self._run(_Call("gather", algorithm, root=root, deadline=deadline), source, target, layout, part_in=True)
        return target.given_back(source) if self.rank == root else None

    def scatter(
        self, x: Any, root: int = 0, *, out: Any = None, algorithm: str | None = None, deadline: float | None = None
    ) -> Any:
        """Every rank gets its part of the root's x, cut along the first axis; other ranks pass None, and out."""
        root = self._rank(root)
        if self.rank == root:
            source = readable(x)
            target = self._target(out, source, self._cut(source.values.shape))
        elif out is None:
            raise ConfigError("scatter needs out= on ranks other than the root: they cannot know what will arrive")
        else:
            source = target = writable(out)
        layout = EqualBlocks(target.values.nbytes * self.size, self.size, target.values.itemsize)
        call = _Call("scatter", algorithm, root=root, deadline=deadline)
        self._run(call, source, target, layout, part_out=True)
        return target.given_back(source)

    def reduce_scatter(
        self, x: Any, op: Any = "sum", *, out: Any = None, algorithm: str | None = None, deadline: float | None = None
    ) -> Any:
        """Reduce x over all ranks and cut the result along the first axis; every rank gets its part."""
        source = readable(x)
        target = self._target(out, source, self._cut(source.values.shape))
        layout = EqualBlocks(source.values.nbytes, self.size, source.values.itemsize)
        call = _Call("reduce_scatter", algorithm, op=op, deadline=deadline)
        self._run(call, source, target, layout, part_out=True)
        return target.given_back(source)

    def alltoall(self, x: Any, *, out: Any = None, algorithm: str | None = None, deadline: float | None = None) -> Any:
        """Send the i-th part of x (cut along the first axis) to rank i; get as many parts back, by rank."""
        source = readable(x)
        self._cut(source.values.shape)
        target = self._target(out, source, source.values.shape)
        layout = EqualBlocks(source.values.nbytes * self.size, self.size**2, source.values.itemsize)
        self._run(_Call("alltoall", algorithm, deadline=deadline), source, target, layout)
        return target.given_back(source)

    def barrier(self, *, algorithm: str | None = None, deadline: float | None = None) -> None:
        """Return when every rank has come here."""
        nothing = readable(np.empty(0, np.uint8))
        call = _Call("barrier", algorithm, op="or", deadline=deadline)
        self._run(call, nothing, nothing, EqualBlocks(0, 1))

    def stats(self) -> dict[str, Any]:
        """Calls, bytes sent to and received from each rank without headers, and which algorithms ran how often."""
        calls, sent, received = self._open().counters()
        return {"calls": calls, "sent": sent, "received": received, "algorithms": dict(self._used)}

    def _run(
        self,
        call: _Call,
        source: Array,
        target: Array,
        layout: Layout,
        *,
        part_in: bool = False,
        part_out: bool = False,
    ) -> None:
        in_place = source.address == target.address and not (part_in or part_out)
        key = (call.facts, layout.total, source.dtype, in_place)
        with self._turn:
            executor = self._open()
            if key not in self._prepared:
                if len(self._prepared) >= MOST_PREPARED:
                    self._prepared.clear()
                self._prepared[key] = self._prepare(call, source, layout, in_place, part_in, part_out)
            prepared = self._prepared[key]
            deadline = self.deadline if call.deadline is None else call.deadline
            executor.run(
                prepared.program,
                source.address,
                target.address,
                prepared.sizes,
                prepared.in_offsets,
                prepared.out_offsets,
                source.code,
                prepared.operator,
                prepared.fingerprint,
                deadline,
            )
            self._used[prepared.name] += 1
            if prepared.averages and target.values.size:
                divide(target.address, target.values.size, target.code, self.size)

    def _prepare(
        self, call: _Call, source: Array, layout: Layout, in_place: bool, part_in: bool, part_out: bool
    ) -> _Prepared:
        operator, averages = call.operator(source)
        schedule = self._schedule(call, layout)
        if layout.blocks != schedule.blocks:
            layout = EqualBlocks(layout.total, schedule.blocks, source.values.itemsize)
        ready = self._programs.of(schedule, in_place=in_place)
        sizes = np.asarray(layout.nbytes(ready.blocks, 1)).astype(np.uint64)
        starts = np.asarray(layout.start(ready.blocks)).astype(np.uint64)
        ins, outs = np.zeros_like(starts) if part_in else starts, np.zeros_like(starts) if part_out else starts
        if call.collective == "alltoall":
            ins, outs = self._alltoall_offsets(ready.blocks, layout)
        fingerprint = call.fingerprint(schedule, layout.total, source.dtype)
        is_receiver = call.collective != "reduce" or self.rank == call.root
        name = f"{call.collective} {schedule.name}"
        return _Prepared(ready.native, sizes, ins, outs, operator, fingerprint, averages and is_receiver, name)

    def _schedule(self, call: _Call, layout: Layout) -> Schedule:
        if call.algorithm is not None:
            if call.reproducible and not reduces_in_rank_order(call.collective, call.algorithm, self.size):
                raise ConfigError(f"{call.algorithm} does not reduce in rank order, so it cannot be reproducible")
            return find(call.collective, call.algorithm).schedule(self.size, call.root)
        if call.reproducible:
            return find(call.collective, "flat").schedule(self.size, call.root)
        nbytes = layout.total // self.size if call.collective == "alltoall" else layout.total
        return select(call.collective, self.size, nbytes, call.root)

    def _alltoall_offsets(self, blocks: Ints, layout: Layout) -> tuple[Any, Any]:
        """Block s·p + d is the d-th of rank s's input and the s-th of rank d's output."""
        part = layout.total // self.size**2
        source, target = np.divmod(blocks, self.size)
        return (target * part).astype(np.uint64), (source * part).astype(np.uint64)

    def _whole(self, array: Array) -> EqualBlocks:
        return EqualBlocks(array.values.nbytes, 1, array.values.itemsize)

    def _pair(self, x: Any, out: Any) -> tuple[Array, Array]:
        source = readable(x)
        return source, self._target(x if out is x else out, source, source.values.shape)

    def _target(self, out: Any, source: Array, shape: tuple[int, ...]) -> Array:
        if out is None:
            return source.like(shape)
        target = writable(out)
        has, needs = (target.values.size, target.dtype), (prod(shape), source.dtype)
        if has != needs:
            raise ConfigError(f"out has {has[0]} elements of {has[1]}, the result has {needs[0]} of {needs[1]}")
        return target

    def _cut(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        if not shape or shape[0] % self.size:
            raise ConfigError(
                f"an array of shape {shape} cannot be cut into {self.size} equal parts along its first axis"
            )
        return (shape[0] // self.size, *shape[1:])

    def _rank(self, rank: int) -> int:
        if not 0 <= rank < self.size:
            raise ConfigError(f"root {rank} is out of range: {self.size} ranks are numbered 0 to {self.size - 1}")
        return rank

    def _open(self) -> Executor:
        if self._executor is None:
            raise ConfigError("this communicator is closed")
        return self._executor


class _Prepared(NamedTuple):
    """All that a call needs besides addresses and a deadline: a second call of the same kind finds it ready."""

    program: NativeProgram
    sizes: NDArray[np.uint64]
    in_offsets: NDArray[np.uint64]
    out_offsets: NDArray[np.uint64]
    operator: int
    fingerprint: int
    averages: bool
    name: str


class _Call:
    """What the user asked for, besides the arrays."""

    def __init__(
        self,
        collective: str,
        algorithm: str | None,
        *,
        root: int = 0,
        op: Any = "sum",
        reproducible: bool = False,
        deadline: float | None = None,
    ) -> None:
        self.collective, self.algorithm, self.root = collective, algorithm, root
        self.op = BUILTINS.get(op, op) if not isinstance(op, str) else op
        self.reproducible, self.deadline = reproducible, deadline
        self.facts = (collective, algorithm, root, self.op, reproducible)

    def operator(self, array: Array) -> tuple[int, bool]:
        """The native number of the operator, and whether to divide by the number of ranks in the end."""
        averages = self.op == "avg"
        name = "sum" if averages else self.op
        if name not in OPS:
            raise ConfigError(f"there is no operator {self.op!r}; there are: {', '.join([*OPS, 'avg'])}")
        if not supports(OPS[name], array.code) or (averages and array.dtype == "bool"):
            raise ConfigError(f"{self.op} is not defined for elements of type {array.dtype}")
        return OPS[name], averages

    def fingerprint(self, schedule: Schedule, total: int, dtype: str) -> int:
        """A number of all that the ranks have to agree on."""
        facts = (schedule.collective.name, schedule.name, schedule.root, sorted(schedule.parameters.items()))
        text = repr((facts, self.op if schedule.collective.reduces else None, total, dtype))
        return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")
