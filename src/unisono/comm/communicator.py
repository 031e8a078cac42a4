"""The communicator: collectives on the caller's arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from .._native import Executor, scale
from ..errors import ConfigError
from ..schedule.layout import EqualBlocks, UnequalBlocks
from ..trace.file import Track
from . import objects
from .arrays import Array, readable, writable
from .call import Call, PremultipliedSum
from .handle import Handle
from .runner import Runner, Shape


class Communicator:
    """A group of ranks that communicate. Every rank makes the same calls, in the same order.

    All calls take ``algorithm=`` to force one and ``deadline=`` in seconds, and return the result; those that fill
    an array of the caller's take ``out=``. ``start("allreduce", x)`` makes a call that goes on by itself.
    """

    def __init__(
        self,
        executor: Executor,
        *,
        rank: int,
        size: int,
        local_rank: int = 0,
        hosts: list[str] | None = None,
        deadline: float = 300.0,
        allow_pickle: bool = False,
        on_close: Callable[[], None] = lambda: None,
        regroup: Callable[[Communicator, list[int]], Communicator | None] = lambda comm, members: None,
        track: Track | None = None,
    ) -> None:
        self.rank, self.size, self.local_rank = rank, size, local_rank
        self.hosts = hosts or []
        self.deadline = deadline
        self.allow_pickle = allow_pickle
        self._runner = Runner(executor, rank, size, track)
        self._on_close = on_close
        self._regroup = regroup

    def __repr__(self) -> str:
        return f"<Communicator rank {self.rank} of {self.size}{', closed' if self._runner.closed else ''}>"

    def __enter__(self) -> Communicator:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Give up all links, when the calls under way are through; further calls raise."""
        if not self._runner.closed:
            self._runner.close()
            self._on_close()

    def start(self, call: str, *arguments: Any, **options: Any) -> Handle:
        """Make a call by its name, such as "allreduce", and come back at once with a handle.

        Calls run in the order in which they are made; the arrays are not to be touched before the handle is done.
        """
        function = getattr(self, call, None)
        if call.startswith("_") or call in ("start", "close", "stats") or not callable(function):
            raise ConfigError(f"there is no call {call!r} to start")
        return Handle(self._runner.start(partial(function, *arguments, **options)), call)

    def split(self, color: int | None, key: int = 0) -> Communicator | None:
        """Ranks of one color form a new communicator, ordered by key and then by rank; color None joins none."""
        if color is not None and color < 0:
            raise ConfigError(f"color {color}: colors are numbers from 0 up, or None")
        table = self.allgather(np.array([-1 if color is None else color, key])).tolist()
        ordered = sorted((other_key, rank) for rank, (other, other_key) in enumerate(table) if other == color)
        return self._regroup(self, [rank for _, rank in ordered])

    def duplicate(self) -> Communicator:
        """A communicator of the same ranks, whose calls do not wait for those of this one."""
        twin = self._regroup(self, list(range(self.size)))
        assert twin is not None, "every rank is in it"
        return twin

    def stats(self) -> dict[str, Any]:
        """What happened so far; may be asked for from another thread while a call goes on.

        ``calls``; bytes ``sent`` to and ``received`` from each rank without headers; seconds ``waited`` for each rank;
        which ``algorithms`` ran how often; ``recent`` calls, the newest last: what each was and from which line, when
        it began and ended, and when its first bytes came from each peer, on the clock of ``time.monotonic()``.
        """
        calls, sent, received = self._runner.executor.counters()
        return {
            "calls": calls,
            "sent": sent,
            "received": received,
            "waited": self._runner.flight.waited(),
            "algorithms": dict(self._runner.used),
            "recent": [record.facts() for record in self._runner.flight.calls_since()],
        }

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
        given = readable(x)
        target = self._target(out, given, given.values.shape)
        source = self._premultiplied(given, op, target)
        self._run(Call("allreduce", algorithm, 0, op, reproducible), source, target, self._whole(source), deadline)
        return target.given_back(given)

    def broadcast(self, x: Any, root: int = 0, *, algorithm: str | None = None, deadline: float | None = None) -> Any:
        """Fill x on every rank with the root's."""
        array = readable(x) if isinstance(x, (list, tuple)) else writable(x, "x")
        self._run(Call("broadcast", algorithm, self._rank(root)), array, array, self._whole(array), deadline)
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
        root, given = self._rank(root), readable(x)
        target = self._target(out, given, given.values.shape) if self.rank == root else given.like((0,))
        source = self._premultiplied(given, op, target)
        self._run(Call("reduce", algorithm, root, op, reproducible), source, target, self._whole(source), deadline)
        return target.given_back(given) if self.rank == root else None

    def scan(
        self, x: Any, op: Any = "sum", *, out: Any = None, algorithm: str | None = None, deadline: float | None = None
    ) -> Any:
        """Reduce x over the ranks up to and including this one."""
        given = readable(x)
        target = self._target(out, given, given.values.shape)
        source = self._premultiplied(given, op, target)
        self._run(Call("scan", algorithm, 0, op), source, target, self._whole(source), deadline)
        return target.given_back(given)

    def allgather(self, x: Any, *, out: Any = None, algorithm: str | None = None, deadline: float | None = None) -> Any:
        """Every rank gets all ranks' x, stacked along a new first axis."""
        source = readable(x)
        target = self._target(out, source, (self.size, *source.values.shape))
        shape = Shape(self._equal_parts(source), part_in=True)
        self._run(Call("allgather", algorithm), source, target, shape, deadline)
        return target.given_back(source)

    def allgatherv(
        self, x: Any, *, out: Any = None, algorithm: str | None = None, deadline: float | None = None
    ) -> Any:
        """Every rank gets all ranks' x, which may differ in length, one after the other along the first axis."""
        source = self._rows(x)
        counts = self._counts(source, deadline)
        target = self._target(out, source, (sum(counts), *source.values.shape[1:]))
        shape = Shape(self._parts(source, counts), part_in=True)
        self._run(Call("allgather", algorithm), source, target, shape, deadline)
        return target.given_back(source)

    def gather(
        self, x: Any, root: int = 0, *, out: Any = None, algorithm: str | None = None, deadline: float | None = None
    ) -> Any:
        """The root gets all ranks' x, stacked along a new first axis; the others get None."""
        root, source = self._rank(root), readable(x)
        target = source.like((0,))
        if self.rank == root:
            target = self._target(out, source, (self.size, *source.values.shape))
        shape = Shape(self._equal_parts(source), part_in=True)
        self._run(Call("gather", algorithm, root), source, target, shape, deadline)
        return target.given_back(source) if self.rank == root else None

    def gatherv(
        self, x: Any, root: int = 0, *, out: Any = None, algorithm: str | None = None, deadline: float | None = None
    ) -> Any:
        """The root gets all ranks' x, which may differ in length, one after the other; the others get None."""
        root, source = self._rank(root), self._rows(x)
        counts = self._counts(source, deadline)
        target = source.like((0,))
        if self.rank == root:
            target = self._target(out, source, (sum(counts), *source.values.shape[1:]))
        shape = Shape(self._parts(source, counts), part_in=True)
        self._run(Call("gather", algorithm, root), source, target, shape, deadline)
        return target.given_back(source) if self.rank == root else None

    def scatter(
        self, x: Any, root: int = 0, *, out: Any = None, algorithm: str | None = None, deadline: float | None = None
    ) -> Any:
        """Every rank gets its part of the root's x, cut along the first axis; other ranks pass None, and out."""
        root = self._rank(root)
        source, target = self._scattered(x, root, out, lambda shape: self._cut(shape))
        shape = Shape(self._equal_parts(target), part_out=True)
        self._run(Call("scatter", algorithm, root), source, target, shape, deadline)
        return target.given_back(source)

    def scatterv(
        self,
        x: Any,
        counts: Sequence[int] | None = None,
        root: int = 0,
        *,
        out: Any = None,
        algorithm: str | None = None,
        deadline: float | None = None,
    ) -> Any:
        """As scatter, but rank i gets the next ``counts[i]`` rows of the root's x; only the root gives counts."""
        root = self._rank(root)
        rows = np.zeros(self.size, np.int64)
        if self.rank == root:
            rows[:] = self._valid_counts(counts, self._rows(x))
        self.broadcast(rows, root, deadline=deadline)
        source, target = self._scattered(x, root, out, lambda shape: (int(rows[root]), *shape[1:]))
        if target.values.shape[:1] != (rows[self.rank],):
            raise ConfigError(f"out has shape {target.values.shape}, but {rows[self.rank]} rows will arrive")
        shape = Shape(self._parts(target, rows.tolist()), part_out=True)
        self._run(Call("scatter", algorithm, root), source, target, shape, deadline)
        return target.given_back(source)

    def reduce_scatter(
        self, x: Any, op: Any = "sum", *, out: Any = None, algorithm: str | None = None, deadline: float | None = None
    ) -> Any:
        """Reduce x over all ranks and cut the result along the first axis; every rank gets its part."""
        given = readable(x)
        target = self._target(out, given, self._cut(given.values.shape))
        source = self._premultiplied(given, op, target)
        layout = EqualBlocks(source.values.nbytes, self.size, source.values.itemsize)
        call = Call("reduce_scatter", algorithm, 0, op)
        self._run(call, source, target, Shape(layout, part_out=True), deadline)
        return target.given_back(given)

    def alltoall(self, x: Any, *, out: Any = None, algorithm: str | None = None, deadline: float | None = None) -> Any:
        """Send the i-th part of x (cut along the first axis) to rank i; get as many parts back, by rank."""
        source = readable(x)
        self._cut(source.values.shape)
        target = self._target(out, source, source.values.shape)
        layout = EqualBlocks(source.values.nbytes * self.size, self.size**2, source.values.itemsize)
        self._run(Call("alltoall", algorithm), source, target, Shape(layout), deadline)
        return target.given_back(source)

    def alltoallv(
        self,
        x: Any,
        counts: Sequence[int],
        *,
        out: Any = None,
        algorithm: str | None = None,
        deadline: float | None = None,
    ) -> Any:
        """Send the next ``counts[i]`` rows of x to rank i; get what the others send here, one after the other."""
        source = self._rows(x)
        own = np.array(self._valid_counts(counts, source), np.int64)
        matrix = self.allgather(own, deadline=deadline)
        target = self._target(out, source, (int(matrix[:, self.rank].sum()), *source.values.shape[1:]))
        layout = self._parts(source, matrix.ravel().tolist())
        self._run(Call("alltoall", algorithm), source, target, Shape(layout), deadline)
        return target.given_back(source)

    def send(self, x: Any, to: int, *, deadline: float | None = None) -> None:
        """Send x to another rank, which receives it. Returns when x may be used again."""
        self._exchange(readable(x), to, None, None, deadline)

    def recv(self, source: int, *, out: Any, deadline: float | None = None) -> Any:
        """Receive into ``out`` what another rank sends: as many elements of the same type."""
        self._exchange(None, None, writable(out), source, deadline)
        return out

    def sendrecv(self, x: Any, to: int, source: int, *, out: Any = None, deadline: float | None = None) -> Any:
        """Send x to one rank and receive as much from another (or the same), at once."""
        given = readable(x)
        target = self._target(out, given, given.values.shape)
        if np.may_share_memory(given.values, target.values):
            given = given._replace(values=given.values.copy())
        self._exchange(given, to, target, source, deadline)
        return target.given_back(given)

    def barrier(self, *, algorithm: str | None = None, deadline: float | None = None) -> None:
        """Return when every rank has come here."""
        nothing = readable(np.empty(0, np.uint8))
        self._run(Call("barrier", algorithm, 0, "or"), nothing, nothing, Shape(EqualBlocks(0, 1)), deadline)

    def allgather_object(self, value: Any) -> list[Any]:
        """Every rank gets all ranks' objects, by rank. Needs ``allow_pickle``."""
        return objects.allgather(self, value)

    def gather_object(self, value: Any, root: int = 0) -> list[Any] | None:
        """The root gets all ranks' objects, by rank; the others get None. Needs ``allow_pickle``."""
        return objects.gather(self, value, self._rank(root))

    def broadcast_object(self, value: Any = None, root: int = 0) -> Any:
        """Every rank gets the root's object. Needs ``allow_pickle``."""
        return objects.broadcast(self, value, self._rank(root))

    def _exchange(
        self, x: Array | None, to: int | None, out: Array | None, source: int | None, deadline: float | None
    ) -> None:
        for peer in (to, source):
            if peer is not None and self._rank(peer, "rank") == self.rank:
                raise ConfigError(f"rank {self.rank} cannot send to or receive from itself")
        self._runner.exchange(x, to, out, source, self.deadline if deadline is None else deadline)

    def _run(self, call: Call, source: Array, target: Array, shape: Shape, deadline: float | None) -> None:
        self._runner.run(call, source, target, shape, self.deadline if deadline is None else deadline)

    def _premultiplied(self, source: Array, op: Any, target: Array) -> Array:
        """The source times the factor of the operator, if it has one; in the target, if it is as large."""
        if not isinstance(op, PremultipliedSum) or "float" not in source.dtype:
            return source
        if target.values.size == source.values.size:
            values = target.values.reshape(source.values.shape)
            np.copyto(values, source.values)
        else:
            values = source.values.copy()
        scaled = Array(values, source.dtype, source.origin)
        scale(scaled.address, values.size, source.code, op.factor)
        return scaled

    def _target(self, out: Any, source: Array, shape: tuple[int, ...]) -> Array:
        if out is None:
            return source.like(shape)
        target = writable(out)
        has, needs = (target.values.size, target.dtype), (prod(shape), source.dtype)
        if has != needs:
            raise ConfigError(f"out has {has[0]} elements of {has[1]}, the result has {needs[0]} of {needs[1]}")
        return target

    def _scattered(
        self, x: Any, root: int, out: Any, cut: Callable[[tuple[int, ...]], tuple[int, ...]]
    ) -> tuple[Array, Array]:
        """The root's vector and where its part goes; other ranks have the latter only."""
        if self.rank == root:
            source = readable(x)
            return source, self._target(out, source, cut(source.values.shape))
        if out is None:
            raise ConfigError("scatter needs out= on ranks other than the root: they cannot know what will arrive")
        target = writable(out)
        return target, target

    def _rows(self, x: Any) -> Array:
        array = readable(x)
        if array.values.ndim == 0:
            raise ConfigError("a single number has no rows; pass an array of one dimension or more")
        return array

    def _counts(self, source: Array, deadline: float | None) -> list[int]:
        """How many rows every rank has."""
        own = np.array([source.values.shape[0]], np.int64)
        return [int(count) for count in self.allgather(own, deadline=deadline).ravel()]

    def _valid_counts(self, counts: Sequence[int] | None, source: Array) -> list[int]:
        rows = source.values.shape[0]
        if counts is None or len(counts) != self.size or min(counts) < 0 or sum(counts) != rows:
            raise ConfigError(
                f"counts has a number of rows for each of {self.size} ranks, together {rows}; not {counts}"
            )
        return [int(count) for count in counts]

    def _parts(self, array: Array, counts: list[int]) -> UnequalBlocks:
        row = array.values.itemsize * prod(array.values.shape[1:])
        return UnequalBlocks.of([count * row for count in counts])

    def _equal_parts(self, part: Array) -> EqualBlocks:
        return EqualBlocks(part.values.nbytes * self.size, self.size, part.values.itemsize)

    def _whole(self, array: Array) -> Shape:
        return Shape(EqualBlocks(array.values.nbytes, 1, array.values.itemsize))

    def _cut(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        if not shape or shape[0] % self.size:
            raise ConfigError(
                f"an array of shape {shape} cannot be cut into {self.size} equal parts along its first axis"
            )
        return (shape[0] // self.size, *shape[1:])

    def _rank(self, rank: int, what: str = "root") -> int:
        if not 0 <= rank < self.size:
            raise ConfigError(f"{what} {rank} is out of range: {self.size} ranks are numbered 0 to {self.size - 1}")
        return rank
