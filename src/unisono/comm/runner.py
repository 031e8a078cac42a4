"""Runs calls on arrays, one after the other."""

from __future__ import annotations

import threading
import weakref
from collections import Counter
from collections.abc import Callable
from functools import partial
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import numpy as np

from .._native import Executor, LinkPlan, Shortcuts
from ..errors import ConfigError, DeadlineExceeded, UnisonoError
from ..schedule.conditions import COLLECTIVES
from ..trace.record import Kind
from ..tune.model import Model
from ..tune.place import Place
from ..tune.select import Selector
from .agreement import Agreement
from .arrays import Array
from .black_box import BlackBox, Witness
from .call import layout_key
from .explanation import Explanation
from .flight import Flight
from .fork import in_a_forked_child
from .in_flight import keep, stop_at_exit
from .incident import Errand
from .lookout import Lookout
from .plans import Arithmetic, Sharing
from .prepared import Preparation, Prepared
from .requests import Collective, Exchange, Request

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

    from .._native import Ticket
    from ..trace.file import Track

MOST_PREPARED = 1024
T = TypeVar("T")


class Runner:
    """The calls of one rank. They run in the order in which they were made, in whatever thread that was."""

    def __init__(
        self,
        executor: Executor,
        rank: int,
        size: int,
        *,
        sharing: Sharing | None = None,
        selector: Selector | None = None,
        lookout: Lookout | None = None,
        strict: bool = False,
        track: Track | None = None,
        witness: Witness | None = None,
    ) -> None:
        self.rank, self.size = rank, size
        self.flight = Flight(executor.recorder())
        self.black_box = BlackBox(witness, self.flight) if witness else None
        self.used: Counter[str] = Counter()
        self._executor: Executor | None = executor
        self.selector = selector or Selector(Model(), Place(shares_memory=sharing is not None))
        self._preparation = Preparation(rank, size, sharing, self.selector)
        self._prepared: dict[tuple[Any, ...], Prepared] = {}
        self._agreement = Agreement(self._preparation) if strict and size > 1 else None
        if lookout and self.black_box:
            lookout.when_told = self.black_box.heard
        self._explanation = Explanation(executor, self.flight, rank, lookout)
        self._turn = threading.RLock()
        self._has_turn: int | None = None  # the thread whose calls run now
        self._until: float | None = None  # by when they have to be through
        self._order = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None
        self._worker: int | None = None
        self._last: Future[Any] | None = None
        self._ticket: Ticket | None = None  # of the call that was started last
        self.shortcuts = Shortcuts(executor, self.flight.sites, partial(_fail, weakref.ref(self)))
        if track or self._agreement:  # each call is counted, or talked about first
            self.shortcuts.hold()
        stop_at_exit(executor)
        in_a_forked_child(self, Runner._let_go)
        self._started_from = 0  # the line that started what the worker does
        self._tag = ""  # of that
        self._track = track
        if track:
            track.follow(self.flight.calls_since)

    @property
    def executor(self) -> Executor:
        if self._executor is None:
            raise ConfigError("this communicator is closed")
        return self._executor

    @property
    def closed(self) -> bool:
        return self._executor is None

    def close(self) -> None:
        """After the calls that are under way."""
        self.shortcuts.hold()
        if self._pool is not None:
            self._pool.shutdown()
        with self._turn:
            self._finish_all()
            self.shortcuts.close()
            self._executor = None
            self._explanation.forget_executor()
            if self.black_box:
                self.black_box.close()
            if self._track:
                self._track.close()

    def _let_go(self) -> None:
        """Where a signal handler forked, the child may still be in a call: it tells nobody how that ended."""
        self._track = None

    def require_process(self) -> None:
        """That the communicator belongs to; a `Refusal` is in our place in others."""

    def uses(self) -> dict[str, int]:
        """How often each algorithm ran."""
        uses = self.used.copy()
        for kind, count in self.shortcuts.uses().items():
            uses[str(self.flight.kind(kind))] += count
        return dict(uses)

    @property
    def news(self) -> UnisonoError | None:
        """What a call raises at once."""
        return self._explanation.news

    @property
    def lost(self) -> frozenset[int]:
        """Ranks that the failure of a call has named as lost."""
        return self._explanation.lost

    def settle(self, seconds: float) -> None:
        """Until no call is under way. After a failure they fail now; otherwise they go on to their end."""
        executor, until = self.executor, monotonic() + seconds
        if self._explanation.has_failed:
            executor.stop(seconds)
        while executor.busy():
            if monotonic() >= until:
                raise DeadlineExceeded(f"rank {self.rank} has waited {seconds:g} s for calls that are under way")
            sleep(0.001)

    def run(self, request: Request) -> None:
        """Run one call: here and now, or after those that are under way."""
        site = self._caller()
        if self._tag and threading.get_ident() == self._worker:
            request = request.tagged(self._tag)
        self.in_turn(lambda: self._run(request, site), request.name, request.deadline)

    def start(self, request: Request, site: int | None = None) -> Ticket | Future[None]:
        """Run one call after all that were started before, and come back at once."""
        site = self.flight.sites.caller(depth=4) if site is None else site
        if news := self._explanation.news:
            return _failed(news)
        at_once = not (self._pool_is_busy() or self._explanation.has_to_begin_again or self._agreement)
        if at_once and self._turn.acquire(blocking=False):
            try:
                ticket = self._issue(request, site, later=True)
                assert ticket is not None, "it was asked for"
                return ticket
            finally:
                self._turn.release()
        return self._submit(lambda: self.in_turn(lambda: self._run(request, site), request.name, request.deadline))

    def start_known(
        self, method: Any, arguments: tuple[Any, ...], options: dict[str, Any]
    ) -> tuple[Ticket, Any] | None:
        """Likewise, if such a call was made before; gives its result, too, which is that when it has run."""
        started = self.shortcuts.start(method, *arguments, **options)
        if started is not None:
            self._ticket = started[0]
            keep(started[0], (arguments, options))
        return started

    def start_several(self, function: Callable[[], T], site: int | None = None, tag: str = "") -> Future[T]:
        """Run a function, which makes calls, after all that was started before. The tag is that of all of them."""
        site = self.flight.sites.caller(depth=4) if site is None else site

        def work() -> T:
            self._started_from, self._tag = site, tag
            try:
                return function()
            finally:
                self._tag = ""

        return self._submit(work)

    @property
    def epoch(self) -> int:
        """Between failures that all ranks recover from."""
        return self._explanation.epoch

    def say_of_errands(self, errand: Callable[[], Errand | None]) -> None:
        """Who asks where this rank is hears of this, too: what its program waits for that is no call."""
        self._explanation.say_of_errands(errand)

    def tell_of_errand(self) -> None:
        """The program waits for other ranks. If they wait for it in a call, all raise a MismatchError."""
        self._explanation.tell_of_errand()

    def explain(self, error: BaseException, call: str, epoch: int) -> BaseException:
        """What to raise to the program where a call of an epoch ended with this error."""
        cause = self._explanation.of(error, call, epoch)
        noticed_by = self.rank
        if isinstance(cause, UnisonoError) and cause.epoch is not None:
            noticed_by = self.rank if cause.noticed_by is None else cause.noticed_by
            if cause.epoch == self._explanation.epoch:
                self._explanation.seen()
        if self.black_box:
            self.black_box.failed(cause, noticed_here=noticed_by == self.rank)
        return cause

    def in_turn(self, function: Callable[[], T], call: str, seconds: float) -> T:
        """Run a function, which makes calls, here and now, unless others that make several are under way.

        No call of another thread comes in between. Who has the turn already goes on: to wait for those others, which
        wait for the turn, would never end. All calls of the function together have so many seconds.
        """
        epoch = self._explanation.epoch
        try:
            if news := self._explanation.news:
                raise news
            if self._pool_is_busy() and threading.get_ident() not in (self._worker, self._has_turn):
                return self._submit(lambda: self.in_turn(function, call, seconds)).result()
            with self._turn:
                if self._has_turn == threading.get_ident():  # part of another function's turn
                    return function()
                self._has_turn, self._until = threading.get_ident(), monotonic() + seconds
                self.shortcuts.hold()
                try:
                    if self._explanation.has_to_begin_again:
                        self._finish_all()
                        self._explanation.begin_again(self._until)
                        epoch = self._explanation.epoch
                        self.shortcuts.set_epoch(epoch)
                    return function()
                finally:
                    self.shortcuts.release()
                    self._has_turn, self._until = None, None
        except BaseException as error:
            if threading.get_ident() == self._worker:  # the program will see it when it waits
                cause = self._explanation.of(error, call, epoch)
            else:
                cause = self.explain(error, call, epoch)
            if cause is error:
                raise
            raise cause from None

    def _finish_all(self) -> None:
        """Here no thread begins a call, because this one has the turn."""
        if self._ticket is not None:
            self._ticket.wait(None)
        while self._executor is not None and self._executor.busy():  # another thread's, that took a shortcut
            sleep(0.0001)

    def _pool_is_busy(self) -> bool:
        return self._last is not None and not self._last.done()

    def _submit(self, function: Callable[[], T]) -> Future[T]:
        with self._order:
            if self._pool is None:
                from concurrent.futures import ThreadPoolExecutor  # takes time to import, and not all need it

                self._pool = ThreadPoolExecutor(1, "unisono")
            self.shortcuts.hold()
            future = self._last = self._pool.submit(self._work, function)
            future.add_done_callback(lambda _: self.shortcuts.release())
            return future

    def _work(self, function: Callable[[], T]) -> T:
        """In the thread of the pool, which must know nobody between the calls, so that a forgotten runner can go."""
        self._worker = threading.get_ident()
        return function()

    def _caller(self) -> int:
        if threading.get_ident() == self._worker:
            return self._started_from
        return self.flight.sites.caller(depth=4)  # above the method, our run, this, and what it calls

    def _run(self, request: Request, site: int) -> None:
        if self._agreement and isinstance(request, Collective):
            check = self._agreement.on(self._find(request)[0])
            self._wait_for(self._hand_over(check.ready, check.source, check.target, request.deadline, site))
            check.compare()
        self._wait_for(self._issue(request, site, later=False))

    def _note(self, request: Collective, ready: Prepared) -> None:
        """The next call with such arguments takes the shortcut."""
        _, source, target, _, seconds = request
        kind = self.flight.number_of(ready.kind)
        sizes = source.values.nbytes, target.values.nbytes
        addresses = source.address, target.address
        self.shortcuts.note(ready.plan, addresses[0], sizes[0], addresses[1], sizes[1], seconds, kind, ready.nbytes)

    def _wait_for(self, ticket: Ticket | None) -> None:
        if ticket is not None:
            ticket.wait(None)
            ticket.rethrow()

    def _issue(self, request: Request, site: int, *, later: bool) -> Ticket | None:
        """Hand a call to the executor. If it comes back before the call is through, with a ticket."""
        if isinstance(request, Collective):
            ready, source, target = self._find(request)
        else:
            ready, source, target = self._pairwise(request), request.x or _NOTHING, request.out or _NOTHING
        ticket = self._hand_over(ready, source, target, request.deadline, site, later=later)
        if isinstance(request, Collective):
            self.used[str(ready.kind)] += 1
            if source is request.source:
                self._note(request, ready)
        if ticket is not None:
            self._ticket = ticket
            keep(ticket, (source, target))
        return ticket

    def _hand_over(
        self, ready: Prepared, source: Array, target: Array, seconds: float, site: int, *, later: bool = False
    ) -> Ticket | None:
        if not later and self._until is not None:
            seconds = min(seconds, self._until - monotonic())
        ticket = self.executor.run(
            ready.plan,
            source.address,
            source.values.nbytes,
            target.address,
            target.values.nbytes,
            seconds,
            self.flight.number_of(ready.kind),
            site,
            ready.nbytes,
            later,
        )
        if self._track:
            self._track.count()
        return ticket

    def _find(self, request: Collective) -> tuple[Prepared, Array, Array]:
        call, source, target, shape, _ = request
        same = source.address == target.address and COLLECTIVES[call.collective].blocks is None
        if not same and shape.layout.total and np.may_share_memory(source.values, target.values):
            source = source._replace(values=source.values.copy())
        in_place = same and call.factor == 1.0
        key = (call, layout_key(shape.layout), shape.part_in, shape.part_out, source.dtype, in_place)
        if key not in self._prepared:
            if len(self._prepared) >= MOST_PREPARED:
                self._prepared.clear()
            self._prepared[key] = self._preparation.prepare(call, source, shape, in_place=in_place)
        return self._prepared[key], source, target

    def _pairwise(self, request: Exchange) -> Prepared:
        x, to, out, origin, *_ = request
        sizes = np.array([x.values.nbytes if x else 0, out.values.nbytes if out else 0], np.uint64)
        array = x or out or _NOTHING
        nowhere = np.zeros(2, np.uint64)
        program = self._preparation.programs.between(to, origin)
        plan = LinkPlan(
            program, sizes, nowhere, nowhere, *Arithmetic(array.code, 0), request.fingerprint, pairwise=True
        )
        op = f"for {request.tag}" if request.tag else None
        return Prepared(Kind(request.name, dtype=array.dtype, op=op), int(sizes.sum()), plan)


def _fail(runner: weakref.ref[Runner], method: Any, ticket: Ticket, epoch: int) -> NoReturn:
    """Raise what a call has to raise that took a shortcut and failed."""
    try:
        ticket.rethrow()
    except BaseException as error:
        alive = runner()
        cause = alive.explain(error, method.__name__, epoch) if alive else error
        if cause is error:
            raise
        raise cause from None
    raise AssertionError("it failed")


def _failed(error: UnisonoError) -> Future[Any]:
    from concurrent.futures import Future

    future: Future[Any] = Future()
    future.set_exception(error)
    return future


_NOTHING = Array(np.empty(0, np.uint8), "uint8", None)
