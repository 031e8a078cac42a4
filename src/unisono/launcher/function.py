"""``unisono.launch()``: a function as the ranks of a job, for notebooks and tests."""

from __future__ import annotations

import os
import pickle
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

from ..errors import ConfigError, DeadlineExceeded, PeerLost, UnisonoError
from .dumps import Dumps
from .ending import Ending
from .job import Job, check_ranks
from .meeting import Meeting
from .output import CHUNK, Source
from .rank import Crew, Rank, describe_end, die_with
from .worker import LENGTH_BYTES, Report, main_of_fork

SECONDS_TO_EXPLAIN = 1.0  # after a time-out: for each rank to say where it was


def launch(function: Callable[..., Any], ranks: int = 4, *arguments: Any, timeout: float | None = None) -> list[Any]:
    """Call ``function(*arguments)`` in `ranks` processes of this host; what they return, by rank.

    What the ranks print appears here, each line with its rank. If one raises, so does this call: the first failure,
    with a note that names the rank and has its traceback. The others have 5 s to raise their own errors and are then
    ended. A rank that was killed is a `PeerLost`; `timeout` seconds without an end are a `DeadlineExceeded` that says
    where each rank was. No process is left, also after Ctrl-C.

    A function that can be imported runs in fresh interpreters. One that cannot (from a notebook or a script's own
    ``__main__``, a lambda, a closure), or that has such an argument, runs in forks of this process: they see its
    variables as they are now, but have none of its threads, and NumPy's global generator is in the same state in all
    of them. A library that keeps threads of its own may not survive a fork; then put the function into a module.

    Arguments, return values and exceptions travel by pickle, over pipes between this process and the ones that it
    started; nothing that comes from a network is unpickled.
    """
    if not callable(function):
        raise ConfigError(f"launch() calls a function; it was given {function!r}")
    if not isinstance(ranks, int):
        raise ConfigError(f"launch() with ranks = {ranks!r}: write how many, as in launch(function, 4, *arguments)")
    check_ranks(ranks, "launch() with ranks =")
    if timeout is not None and not timeout > 0:
        raise ConfigError(f"launch() with timeout = {timeout}: write seconds above 0, or None to wait without limit")
    with _Call(function, arguments, Job(ranks)) as running:
        running.start()
        if not running.wait(timeout):
            raise running.deadline_exceeded(timeout)
        return running.values()


class _Call:
    """One launch: its processes, and the pipes from them."""

    def __init__(self, function: Callable[..., Any], arguments: tuple[Any, ...], job: Job) -> None:
        self._function = function
        self._arguments = arguments
        self._meeting = Meeting(job)
        self._job = self._meeting.job
        self._sources: list[Source] = []
        self._results: list[_Result] = []
        self._seen: dict[int, float] = {}  # when we saw a rank end
        self._ending = Ending()
        self._dumps = Dumps(job, only_if_asked_for=True)
        self._cleanup = ExitStack()

    def __enter__(self) -> Self:
        self._cleanup.callback(self._meeting.close)
        self._selector = self._cleanup.enter_context(selectors.DefaultSelector())
        self._cleanup.callback(self._close_pipes)
        self._crew = self._cleanup.enter_context(Crew())
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._cleanup.close()

    def start(self) -> None:
        pickled = _pickle_by_reference(self._function, self._arguments)
        if pickled is None:
            start_one = self._fork
        else:
            file = os.memfd_create("unisono-call")
            self._cleanup.callback(os.close, file)
            with open(file, "wb", closefd=False) as writer:
                writer.write(pickled)

            def start_one(number: int, pipes: _Pipes) -> Rank:
                return self._spawn(number, pipes, file)

        for number in range(self._job.local_size):
            with _Pipes() as pipes:
                self._receive(number, pipes)
                rank = start_one(number, pipes)
                self._meeting.close()
                self._selector.register(rank.ended, selectors.EVENT_READ, rank)

    def _receive(self, number: int, pipes: _Pipes) -> None:
        out, err = Source(number, pipes.out[0], _print_out), Source(number, pipes.err[0], _print_err)
        result = _Result(pipes.result[0])
        self._sources += [out, err]
        self._results.append(result)
        for pipe, source in ((out.pipe, out), (err.pipe, err), (result.pipe, result)):
            self._selector.register(pipe, selectors.EVENT_READ, source)

    def _spawn(self, number: int, pipes: _Pipes, file: int) -> Rank:
        files = (file, pipes.result[1], *self._meeting.descriptors())
        path = [entry for entry in sys.path if isinstance(entry, str)]
        code = (
            f"import sys; sys.path[:] = {path!r}; "
            f"from unisono.launcher.worker import main; main({os.getpid()}, *{files})"
        )
        process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.DEVNULL,
            stdout=pipes.out[1],
            stderr=pipes.err[1],
            env=self._job.environment(number, self._meeting.variables()),
            process_group=0,  # prctl is called by main(): this process may have threads, so no preexec_fn
            pass_fds=files,
        )
        return self._crew.add(number, process.pid, process.wait)

    def _fork(self, number: int, pipes: _Pipes) -> Rank:
        environment = self._job.environment(number, self._meeting.variables())
        bind = die_with(os.getpid())
        for stream in (sys.stdout, sys.stderr):
            stream.flush()  # else both copies write what is buffered
        pid = os.fork()
        if pid == 0:
            os.close(self._crew.guardian_pipe)
            for source in self._incoming:
                os.close(source.pipe)
            main_of_fork(
                self._function,
                self._arguments,
                pipes.result[1],
                bind,
                environment,
                (pipes.out[1], pipes.err[1]),
            )
        return self._crew.add(number, pid, lambda: os.waitpid(pid, 0))

    def wait(self, timeout: float | None) -> bool:
        """Until all have ended; False if time ran out before that."""
        end = None if timeout is None else time.monotonic() + timeout
        while self._crew.running:
            left = None if end is None else max(0.0, end - time.monotonic())
            if left == 0.0:
                return False
            pauses = [pause for pause in (left, self._ending.wait()) if pause is not None]
            for key, _ in self._selector.select(min(pauses, default=None)):
                self._handle(key.data)
            if number := self._ending.due():
                for rank in self._crew.running:
                    rank.signal(number)
        for source in self._incoming:
            source.drain()
        return True

    def _handle(self, source: Rank | Source | _Result) -> None:
        if isinstance(source, Rank):
            self._selector.unregister(source.ended)
            source.look()
            self._seen[source.number] = time.monotonic()
            self._results[source.number].drain()
            if source.returncode or self._results[source.number].report is None:
                self._ending.begin()
        elif source.read() is False:
            self._selector.unregister(source.pipe)

    def values(self) -> list[Any]:
        failures = [self._failure(rank) for rank in self._crew.ranks]
        failed = sorted((failure for failure in failures if failure), key=lambda failure: failure[0])
        if failed:
            error = failed[0][1]
            for _, later in failed[1:]:
                error.add_note(f"Then: {later.__notes__[0]} {type(later).__name__}: {later}")
            if hint := self._dumps.hint():
                error.add_note(hint)
            raise error
        return [result.value() for result in self._results]

    def _failure(self, rank: Rank) -> tuple[tuple[bool, float], Exception] | None:
        """What to raise for a rank, and its place in the order of failures."""
        report = self._results[rank.number].report
        if report and report.raised:
            error = _error_of(report)
            error.add_note(f"This was raised by rank {rank.number} of {self._job.size}:")
            error.add_note(report.traceback.rstrip())
            # Where a peer was lost there is one that failed before, even if we heard of it later.
            return (isinstance(error, PeerLost), report.when), error
        if report and not rank.returncode:
            return None
        assert rank.returncode is not None
        how = describe_end(rank.returncode) if rank.returncode else "exited"
        lost = PeerLost(f"{rank} {how} before it returned from {_name(self._function)}")
        lost.add_note(f"This is what became of rank {rank.number} of {self._job.size}.")
        return (False, self._seen[rank.number]), lost

    def deadline_exceeded(self, timeout: float | None) -> DeadlineExceeded:
        """Interrupt what still runs, so that each rank reports where it is."""
        running = self._crew.running
        names = ", ".join(str(rank.number) for rank in running)
        error = DeadlineExceeded(
            f"launch() of {_name(self._function)}: rank{'s' * (len(running) > 1)} {names} still ran after {timeout:g} s"
        )
        for rank in running:
            rank.signal(signal.SIGINT)
        self.wait(SECONDS_TO_EXPLAIN)
        for rank in running:
            report = self._results[rank.number].report
            where = report.traceback.rstrip() if report else "  no answer to SIGINT; killed"
            error.add_note(f"Rank {rank.number} was here:\n{where}")
        if hint := self._dumps.hint():
            error.add_note(hint)
        return error

    @property
    def _incoming(self) -> list[Source | _Result]:
        return [*self._sources, *self._results]

    def _close_pipes(self) -> None:
        for source in self._incoming:
            source.close()


class _Result:
    """A rank's report, arriving through a pipe."""

    def __init__(self, pipe: int) -> None:
        os.set_blocking(pipe, False)
        self.pipe = pipe
        self._data = bytearray()
        self._report: Report | None = None

    def read(self) -> bool | None:
        try:
            data = os.read(self.pipe, CHUNK)
        except BlockingIOError:
            return None
        self._data += data
        return bool(data)

    def drain(self) -> None:
        while self.read():
            pass

    @property
    def report(self) -> Report | None:
        """None if the rank ended, or still runs, without having sent all of it."""
        length = int.from_bytes(self._data[:LENGTH_BYTES], "little")
        if self._report is None and len(self._data) >= LENGTH_BYTES + max(length, 1):
            self._report = pickle.loads(self._data[LENGTH_BYTES:])
        return self._report

    def value(self) -> Any:
        assert self.report is not None
        return pickle.loads(self.report.value)

    def close(self) -> None:
        os.close(self.pipe)


class _Pipes:
    """The pipes of a rank. The ends that are for the rank are closed here once it has them."""

    def __init__(self) -> None:
        self.out, self.err, self.result = os.pipe(), os.pipe(), os.pipe()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        for _, write in (self.out, self.err, self.result):
            os.close(write)


def _pickle_by_reference(function: Callable[..., Any], arguments: tuple[Any, ...]) -> bytes | None:
    """The call for a fresh interpreter, or None if that could not import what is in it."""
    try:
        pickled = pickle.dumps((function, arguments))
    except Exception:  # pickle raises whatever an object's own methods raise
        return None
    # Names from __main__ are pickled too, but another interpreter has another __main__.
    return None if b"__main__" in pickled else pickled


def _error_of(report: Report) -> Exception:
    """The exception itself, or one of ours that says what it was."""
    try:
        error = pickle.loads(report.error)
    except Exception:
        error = None
    return error if isinstance(error, Exception) else UnisonoError(report.summary)


def _name(function: Callable[..., Any]) -> str:
    return f"{getattr(function, '__qualname__', repr(function))}()"


def _print_out(rank: int, lines: list[bytes]) -> None:
    _print(sys.stdout, rank, lines)


def _print_err(rank: int, lines: list[bytes]) -> None:
    _print(sys.stderr, rank, lines)


def _print(stream: Any, rank: int, lines: list[bytes]) -> None:
    stream.write("".join(f"[{rank}] {line.decode(errors='replace')}" for line in lines))
    stream.flush()
