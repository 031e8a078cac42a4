"""The rank's side of ``launch()``: call the function, report what came of it."""

from __future__ import annotations

import atexit
import io
import mmap
import os
import pickle
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

from .. import config
from .rank import die_with

LENGTH_BYTES = 8  # of a report, before it: a pipe that a rank's child has inherited may never end


@dataclass(frozen=True)
class Report:
    """What a rank tells its parent. Values and exceptions are pickled apart, as either may not come back."""

    value: bytes = b""
    summary: str = ""  # of what it raised: "ValueError: no such file"; empty if it returned
    error: bytes = b""
    traceback: str = ""
    when: float = 0.0  # on the clock of the host

    @property
    def raised(self) -> bool:
        return bool(self.summary)


def call(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Report:
    try:
        value = function(*arguments)
    except BaseException as error:
        from ..comm.black_box import note_uncaught  # for those that fail only

        note_uncaught(error)
        return _report_error(error)
    try:
        return Report(value=pickle.dumps(value))
    except Exception as error:
        error.add_note(f"A {type(value).__name__} was returned, which cannot be sent back.")
        return _report_error(error)


def _report_error(error: BaseException) -> Report:
    when = time.monotonic()
    here = error.__traceback__
    lines = traceback.format_exception(type(error), error, here.tb_next if here else None)  # without call() itself
    try:
        pickled = pickle.dumps(error) if isinstance(error, Exception) else b""
        pickle.loads(pickled or pickle.dumps(None))  # many exceptions can be pickled, but not made again
    except Exception:
        pickled = b""
    summary = "".join(traceback.format_exception_only(type(error), error)).strip()
    return Report(summary=summary, error=pickled, traceback="".join(lines), when=when)


def work(function: Callable[..., Any], arguments: tuple[Any, ...], results: int) -> int:
    """Call, report, and say with which code to exit."""
    report = call(function, arguments)
    data = pickle.dumps(report)
    with open(results, "wb") as pipe:
        pipe.write(len(data).to_bytes(LENGTH_BYTES, "little") + data)
    return 1 if report.raised else 0


def main(parent: int, call_file: int, results: int, *others: int) -> None:
    """A fresh interpreter as a rank: the function and its arguments are in a file in memory."""
    die_with(parent)()
    for fd in (call_file, results, *others):
        os.set_inheritable(fd, False)
    with mmap.mmap(call_file, 0, prot=mmap.PROT_READ) as memory:
        function, arguments = pickle.loads(memory)
    os.close(call_file)
    sys.exit(work(function, arguments, results))


def main_of_fork(
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
    results: int,
    bind: Callable[[], None],
    environment: dict[str, str],
    streams: tuple[int, int],
) -> NoReturn:
    """A copy of the caller as a rank: what belongs to the caller's life is let go of, and not run again at the end."""
    code = 1
    try:
        os.setpgid(0, 0)
        bind()
        _reset_signals()
        atexit._clear()  # as multiprocessing does: else the caller's temporary files are removed by its ranks
        config.become(environment)
        _attach(streams)
        code = work(function, arguments, results)
        threading._shutdown()  # type: ignore[attr-defined]  # waits for threads, as at the end of a program
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        traceback.print_exc()
        code = 1
    finally:
        os._exit(code)


def _reset_signals() -> None:
    signal.set_wakeup_fd(-1)  # an event loop of the caller
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _attach(streams: tuple[int, int]) -> None:
    """Our pipes in the place of what a notebook or a test has put into sys.stdout."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    for fd, number in zip((nothing, *streams), range(3), strict=True):
        os.dup2(fd, number)
        os.close(fd)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = _writer(1, "strict")
    sys.stderr = _writer(2, "backslashreplace")


def _writer(fd: int, errors: str) -> io.TextIOWrapper:
    return open(fd, "w", buffering=1, encoding="utf-8", errors=errors, closefd=False)
