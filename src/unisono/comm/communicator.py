"""The communicator: collectives on the caller's arrays."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial, wraps
from math import prod
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import numpy as np

from .._native import Executor, Inbox, Ticket
from ..errors import ConfigError, UnisonoError
from ..schedule.layout import EqualBlocks
from ..tune.model import Model
from ..tune.place import Place
from ..tune.select import Selector
from . import objects
from .arguments import counts_of_rows, seconds, whole
from .arrays import Array, is_value, new_array, readable, writable
from .asynchronous import asynchronous
from .black_box import Witness
from .call import Call
from .fork import Refusal, in_a_forked_child, this_process
from .handle import Done, Handle, Started, Submitted
from .lookout import Lookout
from .parts import cut, equal_parts, one_part, parts, reduced_part, with_rows
from .plans import Sharing
from .prepared import Shape
from .requests import Collective, Exchange, Steps, finished, one_call, steps_of
from .runner import Runner

if TYPE_CHECKING:
    from ..trace.file import Track
    from .comparison import Comparison
    from .shrink import Shrink

P = ParamSpec("P")
T = TypeVar("T")


def in_one_turn(method: Callable[Concatenate[Communicator, P], T]) -> Callable[Concatenate[Communicator, P], T]:
    """For what makes several calls: those of other threads come before or after, not in between."""

    @wraps(method)
    def in_turn(comm: Communicator, /, *arguments: P.args, **options: P.kwargs) -> T:
        seconds = comm._seconds(options.get("deadline"))  # type: ignore[arg-type]
        return comm._runner.in_turn(lambda: method(comm, *arguments, **options), method.__name__, seconds)

    return in_turn


_known_methods: dict[tuple[type, str], Any] = {}
"""By the names of the calls that were started: those that make one call."""


class Communicator:
    """A group of ranks that communicate. Every rank makes the same calls, in the same order.

    All calls take ``algorithm=`` to force one and ``deadline=`` in seconds, and return the result; those that fill
    an array of the caller's take ``out=``. ``start("allreduce", x)`` makes a call that goes on by itself.
    """

    __slots__ = ("__dict__", "__weakref__", "_shortcuts")  # the last one for native/bind/method.cpp

    def __init__(
        self,
        executor: Executor,
        *,
        rank: int,
        size: int,
        local_rank: int = 0,
        hosts: list[str] | None = None,
        machines: list[str] | None = None,
        links: list[str] | None = None,
        deadline: float = 300.0,
        allow_pickle: bool = False,
        inbox: Inbox | None = None,
        sharing: Sharing | None = None,
        lookout: Lookout | None = None,
        strict: bool = False,
        on_close: Callable[[], None] = lambda: None,
        regroup: Callable[[Communicator, list[int]], Communicator | None] = lambda comm, members: None,
        shrink: Shrink | None = None,
        track: Track | None = None,
        witness: Witness | None = None,
        model: Model | None = None,
        cores: int | None = None,
    ) -> None:
        self.rank, self.size, self.local_rank = rank, size, local_rank
        self.hosts = hosts or []  # by rank
        self.links = links or []  # by rank: how it is reached, "shm" or "tcp"; "self" is this one
        self._deadline = deadline
        self.allow_pickle = allow_pickle
        self._sharing = "none" if sharing is None else "direct" if sharing.direct else "staged"
        witness = witness and replace(witness, sharing=self._sharing)
        model = model or Model()
        place = Place.of(self.hosts, cores or os.cpu_count() or 1, shares_memory=sharing is not None, machines=machines)
        self._runner: Runner | Refusal = Runner(
            executor,
            rank,
            size,
            sharing=sharing,
            selector=Selector(model, model.at(place, self.hosts)),
            lookout=lookout,
            strict=strict,
            track=track,
            witness=witness,
        )
        self._shortcuts = self._runner.shortcuts
        self._inbox = inbox
        self._regroup = regroup
        self._shrink = shrink
        self._give_up = weakref.finalize(self, on_close)  # also for who forgets to close
        self._process = this_process()
        in_a_forked_child(self, Communicator._let_go)

    def __repr__(self) -> str:
        return f"<Communicator rank {self.rank} of {self.size}{', closed' if self._runner.closed else ''}>"

    def __enter__(self) -> Communicator:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self._runner.black_box:
            self._runner.black_box.left(error)
        self.close()

    @property
    def deadline(self) -> float:
        """Seconds that a call may take that says nothing else."""
        return self._deadline

    @deadline.setter
    def deadline(self, deadline: float) -> None:
        self._deadline = deadline
        self._shortcuts.forget()

    @property
    def failure(self) -> UnisonoError | None:
        """What a call would raise at once, because a rank is lost or has failed; None if all is well."""
        return self._runner.news

    def close(self) -> None:
        """Give up all links, when the calls under way are through; further calls raise."""
        if not self._runner.closed:
            self._runner.close()
            self._give_up()

    def _let_go(self) -> None:
        self._give_up.detach()
        self._runner = Refusal(self.rank, self._process)
        self._inbox = None  # results are private, until the call is refused

    def start(self, call: str, *arguments: Any, **options: Any) -> Handle:
        """Make a call by its name, such as "allreduce", and come back at once with a handle.

        Calls run in the order in which they are made; the arrays are not to be touched before the handle is done.
        """
        method = _known_methods.get((type(self), call)) if isinstance(call, str) else None
        if method and (known := self._runner.start_known(method, arguments, options)):
            ticket, result = known
            return Handle(Started(ticket, lambda: result), call, self._explaining(call))
        function = getattr(self, call, None) if isinstance(call, str) and not call.startswith("_") else None
        is_no_call = call in ("start", "close", "stats", "empty", "shrink", "explain") or str(call).endswith("_async")
        if is_no_call or not callable(function):
            raise ConfigError(f'there is no call {call!r} to start; give its name, such as start("allreduce", x)')
        if self._runner.closed:
            raise ConfigError(f"{call} cannot be started: this communicator is closed")
        if steps_of(function):
            _known_methods[type(self), call] = getattr(type(self), call)
        return self._start(call, arguments, options)

    def _explaining(self, call: str) -> Callable[[BaseException], BaseException]:
        runner, epoch = self._runner, self._runner.epoch
        return lambda error: runner.explain(error, call, epoch)

    def _start(
        self, call: str, arguments: Sequence[Any], options: Mapping[str, Any], site: int | None = None, tag: str = ""
    ) -> Handle:
        """Start a call, from that line, under a name that the ranks compare."""
        explain = self._explaining(call)
        function, method = getattr(self, call), getattr(type(self), call)
        steps = steps_of(function)
        if steps is None:
            several = self._runner.start_several(partial(function, *arguments, **options), site, tag)
            return Handle(Submitted(several), call, explain)
        rest = steps(self, *arguments, **options)
        try:
            request = next(rest).tagged(tag)
        except StopIteration as end:
            return Handle(Done(end.value), call, explain)
        started = self._runner.start(request, site)
        learns = isinstance(started, Ticket) and site is None
        if learns and isinstance(request, Collective) and request.target.origin is not None:
            self._shortcuts.learn(method, request.target.origin, *arguments, **options)
        finish = partial(finished, rest)
        pending = Started(started, finish) if isinstance(started, Ticket) else Submitted(started, finish)
        return Handle(pending, call, explain)

    @in_one_turn
    def split(self, color: int | None, key: int = 0) -> Communicator | None:
        """Ranks of one color form a new communicator, ordered by key and then by rank; color None joins none."""
        color, key = None if color is None else whole(color, "color"), whole(key, "key")
        if (color is not None and not 0 <= color < 1 << 63) or not -1 << 63 <= key < 1 << 63:
            raise ConfigError(f"color {color}, key {key}: colors are numbers from 0 up, or None; all fit into 64 bits")
        table = self.allgather(np.array([-1 if color is None else color, key], np.int64)).tolist()
        ordered = sorted((other_key, rank) for rank, (other, other_key) in enumerate(table) if other == color)
        return self._regroup(self, [rank for _, rank in ordered])

    @in_one_turn
    def duplicate(self) -> Communicator:
        """A communicator of the same ranks, whose calls do not wait for those of this one."""
        twin = self._regroup(self, list(range(self.size)))
        assert twin is not None, "every rank is in it"
        return twin

    def shrink(self, *, deadline: float | None = None) -> Communicator:
        """A communicator of the ranks that are left, in the old order; every rank that is left calls it.

        Those that are not known to be lost are waited for, for three quarters of the deadline. PeerLost on a rank that
        the others went on without, and where those that came are too few to be sure that no others go on.
        """
        if self._shrink is None:
            raise ConfigError("this communicator was not made by unisono.init(), so its ranks cannot find each other")
        begun, limit = monotonic(), self._seconds(deadline)
        self._runner.settle(limit)
        left = max(0.0, limit - (monotonic() - begun))
        return self._shrink(self._runner.executor.gone, self._runner.lost, left, allow_pickle=self.allow_pickle)

    def stats(self) -> dict[str, Any]:
        """What happened so far; may be asked for from another thread while a call goes on.

        ``sharing``: ``"direct"`` or ``"staged"`` use of the other ranks' arrays, or ``"none"``, over links only;
        ``calls``; the ``instructions`` of their programs that ran; bytes ``sent`` to and ``received`` from each rank
        without headers; seconds ``waited`` for each rank; which ``algorithms`` ran how often; ``recent`` calls, the
        newest last: what each was and from which line, when it began and ended, and when its first bytes came from
        each peer, on the clock of ``time.monotonic()``.
        """
        calls, instructions, sent, received = self._runner.executor.counters()
        return {
            "sharing": self._sharing,
            "calls": calls,
            "instructions": instructions,
            "sent": sent,
            "received": received,
            "waited": self._runner.flight.waited(),
            "algorithms": self._runner.uses(),
            "recent": [record.facts() for record in self._runner.flight.calls_since()],
        }

    def explain(self, collective: str, nbytes: int, *, measured: bool = False) -> Comparison:
        """Which algorithms there are for a vector of so many bytes, what they would take, and which one is chosen.

        Printed, it is a table. ``measured`` runs them all, so every rank has to call it.
        """
        from .comparison import compare

        return compare(self, collective, nbytes, measured=measured)

    def empty(self, shape: int | Sequence[int], dtype: Any = np.float32) -> Any:
        """An array, not filled, in memory that the other ranks of this host reduce from and write to directly.

        Calls on such arrays copy nothing; all other arrays work, too. A torch dtype gives a tensor.
        """
        self._runner.require_process()
        extents = (int(shape),) if isinstance(shape, (int, np.integer)) else tuple(int(extent) for extent in shape)
        if any(extent < 0 for extent in extents):
            raise ConfigError(f"an array of shape {extents} cannot be")
        return new_array(self._inbox, extents, dtype)

    (
        allreduce_async, broadcast_async, reduce_async, scan_async, allgather_async, allgatherv_async, gather_async,
        gatherv_async, scatter_async, scatterv_async, reduce_scatter_async, alltoall_async, alltoallv_async, send_async,
        recv_async, sendrecv_async, barrier_async, allgather_object_async, gather_object_async, broadcast_object_async,
    ) = asynchronous(
        "allreduce", "broadcast", "reduce", "scan", "allgather", "allgatherv", "gather",
        "gatherv", "scatter", "scatterv", "reduce_scatter", "alltoall", "alltoallv", "send",
        "recv", "sendrecv", "barrier", "allgather_object", "gather_object", "broadcast_object",
    )  # fmt: skip

    @one_call
    def allreduce(
        self,
        x: Any,
        op: Any = "sum",
        *,
        out: Any = None,
        algorithm: str | None = None,
        reproducible: bool = False,
        deadline: float | None = None,
    ) -> Steps[Any]:
        """Reduce x over all ranks; every rank gets the result. ``out=x`` works in place.

        ``reproducible`` reduces from rank 0 to the last, one after the other, whatever the size and the links.
        """
        given = readable(x)
        call = self._call("allreduce", given, algorithm, 0, op, reproducible)
        target = self._target(out, given, given.values.shape)
        yield self._request(call, given, target, Shape(one_part(given)), deadline)
        return target.given_back(given)

    @one_call
    def broadcast(
        self, x: Any, root: int = 0, *, algorithm: str | None = None, deadline: float | None = None
    ) -> Steps[Any]:
        """Fill x on every rank with the root's. Lists and numbers are returned instead, as long as they were."""
        array = readable(x)._replace(origin=None) if is_value(x) else writable(x, "x")
        call = self._call("broadcast", array, algorithm, self._rank(root))
        yield self._request(call, array, array, Shape(one_part(array)), deadline)
        return array.given_back(array._replace(origin=x))

    @one_call
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
    ) -> Steps[Any]:
        """Reduce x over all ranks; the root gets the result, the others None."""
        root, given = self._rank(root), readable(x)
        call = self._call("reduce", given, algorithm, root, op, reproducible)
        target = self._target(out, given, given.values.shape) if self.rank == root else given.like((0,))
        yield self._request(call, given, target, Shape(one_part(given)), deadline)
        return target.given_back(given) if self.rank == root else None

    @one_call
    def scan(
        self, x: Any, op: Any = "sum", *, out: Any = None, algorithm: str | None = None, deadline: float | None = None
    ) -> Steps[Any]:
        """Reduce x over the ranks up to and including this one."""
        given = readable(x)
        call = self._call("scan", given, algorithm, 0, op)
        target = self._target(out, given, given.values.shape)
        yield self._request(call, given, target, Shape(one_part(given)), deadline)
        return target.given_back(given)

    @one_call
    def allgather(
        self, x: Any, *, out: Any = None, algorithm: str | None = None, deadline: float | None = None
    ) -> Steps[Any]:
        """Every rank gets all ranks' x, stacked along a new first axis."""
        source = readable(x)
        call = self._call("allgather", source, algorithm)
        target = self._target(out, source, (self.size, *source.values.shape))
        shape = Shape(equal_parts(source, self.size), part_in=True)
        yield self._request(call, source, target, shape, deadline)
        return target.given_back(source)

    @in_one_turn
    def allgatherv(
        self, x: Any, *, out: Any = None, algorithm: str | None = None, deadline: float | None = None
    ) -> Any:
        """Every rank gets all ranks' x, which may differ in length, one after the other along the first axis."""
        source = with_rows(x)
        call = self._call("allgather", source, algorithm)
        counts = self._counts(source, deadline)
        target = self._target(out, source, (sum(counts), *source.values.shape[1:]))
        shape = Shape(parts(source, counts), part_in=True)
        self._run(call, source, target, shape, deadline)
        return target.given_back(source)

    @one_call
    def gather(
        self, x: Any, root: int = 0, *, out: Any = None, algorithm: str | None = None, deadline: float | None = None
    ) -> Steps[Any]:
        """The root gets all ranks' x, stacked along a new first axis; the others get None."""
        root, source = self._rank(root), readable(x)
        call = self._call("gather", source, algorithm, root)
        target = source.like((0,))
        if self.rank == root:
            target = self._target(out, source, (self.size, *source.values.shape))
        shape = Shape(equal_parts(source, self.size), part_in=True)
        yield self._request(call, source, target, shape, deadline)
        return target.given_back(source) if self.rank == root else None

    @in_one_turn
    def gatherv(
        self, x: Any, root: int = 0, *, out: Any = None, algorithm: str | None = None, deadline: float | None = None
    ) -> Any:
        """The root gets all ranks' x, which may differ in length, one after the other; the others get None."""
        root, source = self._rank(root), with_rows(x)
        call = self._call("gather", source, algorithm, root)
        counts = self._counts(source, deadline)
        target = source.like((0,))
        if self.rank == root:
            target = self._target(out, source, (sum(counts), *source.values.shape[1:]))
        shape = Shape(parts(source, counts), part_in=True)
        self._run(call, source, target, shape, deadline)
        return target.given_back(source) if self.rank == root else None

    @one_call
    def scatter(
        self, x: Any, root: int = 0, *, out: Any = None, algorithm: str | None = None, deadline: float | None = None
    ) -> Steps[Any]:
        """Every rank gets its part of the root's x, cut along the first axis; other ranks pass None, and out."""
        root = self._rank(root)
        source, target = self._scattered(x, root, out, lambda shape: cut(shape, self.size))
        shape = Shape(equal_parts(target, self.size), part_out=True)
        yield self._request(self._call("scatter", source, algorithm, root), source, target, shape, deadline)
        return target.given_back(source)

    @in_one_turn
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
            rows[:] = counts_of_rows(counts, self.size, len(with_rows(x).values))
        self.broadcast(rows, root, deadline=deadline)
        source, target = self._scattered(x, root, out, lambda shape: (int(rows[root]), *shape[1:]))
        if target.values.shape[:1] != (rows[self.rank],):
            raise ConfigError(f"out has shape {target.values.shape}, but {rows[self.rank]} rows will arrive")
        shape = Shape(parts(target, rows.tolist()), part_out=True)
        self._run(self._call("scatter", source, algorithm, root), source, target, shape, deadline)
        return target.given_back(source)

    @one_call
    def reduce_scatter(
        self,
        x: Any,
        op: Any = "sum",
        *,
        counts: Sequence[int] | None = None,
        out: Any = None,
        algorithm: str | None = None,
        reproducible: bool = False,
        deadline: float | None = None,
    ) -> Steps[Any]:
        """Reduce x over all ranks and cut the result along the first axis; every rank gets its part.

        The parts are equal, or rank i gets the next ``counts[i]`` rows; counts is the same on every rank.
        """
        given = readable(x) if counts is None else with_rows(x)
        call = self._call("reduce_scatter", given, algorithm, 0, op, reproducible)
        shape, layout = reduced_part(given, counts, self.rank, self.size)
        target = self._target(out, given, shape)
        yield self._request(call, given, target, Shape(layout, part_out=True), deadline)
        return target.given_back(given)

    @one_call
    def alltoall(
        self, x: Any, *, out: Any = None, algorithm: str | None = None, deadline: float | None = None
    ) -> Steps[Any]:
        """Send the i-th part of x (cut along the first axis) to rank i; get as many parts back, by rank."""
        source = readable(x)
        call = self._call("alltoall", source, algorithm)
        cut(source.values.shape, self.size)
        target = self._target(out, source, source.values.shape)
        layout = EqualBlocks(source.values.nbytes * self.size, self.size**2, source.values.itemsize)
        yield self._request(call, source, target, Shape(layout), deadline)
        return target.given_back(source)

    @in_one_turn
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
        source = with_rows(x)
        call = self._call("alltoall", source, algorithm)
        own = np.array(counts_of_rows(counts, self.size, len(source.values)), np.int64)
        matrix = self.allgather(own, deadline=deadline)
        target = self._target(out, source, (int(matrix[:, self.rank].sum()), *source.values.shape[1:]))
        layout = parts(source, matrix.ravel().tolist())
        self._run(call, source, target, Shape(layout), deadline)
        return target.given_back(source)

    @one_call
    def send(self, x: Any, to: int, *, deadline: float | None = None) -> Steps[None]:
        """Send x to another rank, which receives it. Returns when x may be used again."""
        yield self._exchange(readable(x), self._peer(to), None, None, deadline)

    @one_call
    def recv(self, source: int, *, out: Any, deadline: float | None = None) -> Steps[Any]:
        """Receive into ``out`` what another rank sends: as many elements of the same type."""
        yield self._exchange(None, None, writable(out), self._peer(source), deadline)
        return out

    @one_call
    def sendrecv(self, x: Any, to: int, source: int, *, out: Any = None, deadline: float | None = None) -> Steps[Any]:
        """Send x to one rank and receive as much from another (or the same), at once; alone, from itself to itself."""
        given = readable(x)
        target = self._target(out, given, given.values.shape)
        if self._rank(to, "rank") == self._rank(source, "rank") == self.rank:
            np.copyto(target.values.reshape(given.values.shape), given.values)
            return target.given_back(given)
        if np.may_share_memory(given.values, target.values):
            given = given._replace(values=given.values.copy())
        yield self._exchange(given, self._peer(to), target, self._peer(source), deadline)
        return target.given_back(given)

    @one_call
    def barrier(self, *, algorithm: str | None = None, deadline: float | None = None) -> Steps[None]:
        """Return when every rank has come here."""
        nothing = readable(np.empty(0, np.uint8))
        call = self._call("barrier", nothing, algorithm, 0, "or")
        yield self._request(call, nothing, nothing, Shape(EqualBlocks(0, 1)), deadline)

    @in_one_turn
    def allgather_object(self, value: Any, *, deadline: float | None = None) -> list[Any]:
        """Every rank gets all ranks' objects, by rank. Needs ``allow_pickle``."""
        return objects.allgather(self, value, deadline)

    @in_one_turn
    def gather_object(self, value: Any, root: int = 0, *, deadline: float | None = None) -> list[Any] | None:
        """The root gets all ranks' objects, by rank; the others get None. Needs ``allow_pickle``."""
        return objects.gather(self, value, self._rank(root), deadline)

    @in_one_turn
    def broadcast_object(self, value: Any = None, root: int = 0, *, deadline: float | None = None) -> Any:
        """Every rank gets the root's object. Needs ``allow_pickle``."""
        return objects.broadcast(self, value, self._rank(root), deadline)

    def _exchange(
        self, x: Array | None, to: int | None, out: Array | None, source: int | None, deadline: float | None
    ) -> Exchange:
        return Exchange(x, to, out, source, self._seconds(deadline))

    def _request(self, call: Call, source: Array, target: Array, shape: Shape, deadline: float | None) -> Collective:
        return Collective(call, source, target, shape, self._seconds(deadline))

    def _run(self, call: Call, source: Array, target: Array, shape: Shape, deadline: float | None) -> None:
        self._runner.run(self._request(call, source, target, shape, deadline))

    def _seconds(self, deadline: float | None) -> float:
        return seconds(self.deadline if deadline is None else deadline)

    def _call(
        self,
        collective: str,
        array: Array,
        algorithm: str | None,
        root: int = 0,
        op: Any = "sum",
        reproducible: bool = False,
    ) -> Call:
        """What is asked for, if it makes sense: checked before anything is written or sent."""
        if reproducible and algorithm is None and collective == "reduce_scatter":
            algorithm = "direct"
        call = Call(collective, algorithm, root, op, reproducible)
        call.check(array, self.size)
        return call

    def _target(self, out: Any, source: Array, shape: tuple[int, ...]) -> Array:
        if out is None:
            return source.like(shape, self._inbox)
        target = writable(out)
        has, needs = (target.values.size, target.dtype), (prod(shape), source.dtype)
        if has != needs:
            raise ConfigError(f"out has {has[0]} elements of {has[1]}, the result has {needs[0]} of {needs[1]}")
        return target

    def _scattered(
        self, x: Any, root: int, out: Any, part_of: Callable[[tuple[int, ...]], tuple[int, ...]]
    ) -> tuple[Array, Array]:
        """The root's vector and where its part goes; other ranks have the latter only."""
        if self.rank == root:
            source = readable(x)
            return source, self._target(out, source, part_of(source.values.shape))
        if out is None:
            raise ConfigError("scatter needs out= on ranks other than the root: they cannot know what will arrive")
        target = writable(out)
        return target.like((0,)), target

    def _counts(self, source: Array, deadline: float | None) -> list[int]:
        """How many rows every rank has."""
        own = np.array([source.values.shape[0]], np.int64)
        return [int(count) for count in self.allgather(own, deadline=deadline).ravel()]

    def _rank(self, given: Any, what: str = "root") -> int:
        rank = whole(given, what)
        if not 0 <= rank < self.size:
            raise ConfigError(f"{what} {rank} is out of range: {self.size} ranks are numbered 0 to {self.size - 1}")
        return rank

    def _peer(self, given: Any) -> int:
        peer = self._rank(given, "rank")
        if peer == self.rank:
            raise ConfigError(f"rank {self.rank} cannot send to or receive from itself")
        return peer
