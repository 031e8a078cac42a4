"""What ranks print, in whole lines, each with the number of its rank."""

from __future__ import annotations

import os
import re
import select
import selectors
import threading
from collections import deque
from collections.abc import Callable
from typing import BinaryIO

from .. import config

LONGEST = 1 << 20  # a longer line is broken, so that a rank that never ends one does not fill our memory
CHUNK = 1 << 16
READS_TO_DRAIN = 32  # of CHUNK: more than a pipe holds, and an end where someone keeps writing

# Progress bars end their line with \r: what follows overwrites it.
END_OF_LINE = re.compile(rb"\r*\n|\r+")
COLOURS = (36, 33, 32, 35, 34, 31)


class Lines:
    """Cuts what arrives in arbitrary pieces into whole lines, with their ends."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._held = b""

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that are complete now. What was looked at once is not looked at again."""
        data = self._held + data
        text = data.rstrip(b"\r")
        self._held = data[len(text) :][:1]  # may become a \r\n
        lines, start = [], 0
        for end in END_OF_LINE.finditer(text):
            line = bytes(self._rest) + text[start : end.end()]
            self._rest.clear()
            start = end.end()
            if line.strip(b"\r"):
                lines.append(line)
        self._rest += text[start:]
        return lines + self.finish() if len(self._rest) > LONGEST else lines

    def finish(self) -> list[bytes]:
        """The last line, which nobody ended."""
        rest = bytes(self._rest)
        self._rest.clear()
        return [rest + b"\n"] if rest else []


class Screen:
    """Our own stdout or stderr, where the lines of all ranks meet."""

    def __init__(self, fd: int, *, labelled: bool = True) -> None:
        self.broken = False
        self._fd = fd
        self._labelled = labelled
        self._terminal = os.isatty(fd)
        self._coloured = self._terminal and not config.inherited().get("NO_COLOR")

    def show(self, rank: int, lines: list[bytes]) -> None:
        label = self._label(rank)
        self.write(b"".join(label + line for line in lines))

    def _label(self, rank: int) -> bytes:
        if not self._labelled:
            return b""
        label = b"[%d]" % rank
        if self._coloured:
            label = b"\x1b[%dm%s\x1b[0m" % (COLOURS[rank % len(COLOURS)], label)
        # Every write ends with \n or \r; after a \r, a progress bar is still there and has to be erased.
        return (b"\x1b[K" if self._terminal else b"") + label + b" "

    def write(self, data: bytes) -> None:
        """All of it, or note that nobody reads us any more."""
        try:
            if not self.broken:
                _write_all(self._fd, data)
        except OSError:
            self.broken = True


def _write_all(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(fd, rest) :]
        except BlockingIOError:  # someone made our terminal non-blocking
            select.select([], [fd], [])


class Source:
    """One stream of one rank: read from a pipe, shown, and written to a log."""

    def __init__(
        self, rank: int, pipe: int, show: Callable[[int, list[bytes]], None], log: BinaryIO | None = None
    ) -> None:
        os.set_blocking(pipe, False)
        self.rank = rank
        self.pipe = pipe
        self.log_error: OSError | None = None  # why the log stopped, if it did
        self._show = show
        self._log = log
        self._lines = Lines()

    def read(self) -> bool | None:
        """Pass on what is there; None if that is nothing, False if nothing will ever come."""
        try:
            data = os.read(self.pipe, CHUNK)
        except BlockingIOError:
            return None
        if self._log and not self.log_error:
            try:
                _write_all(self._log.fileno(), data)
            except OSError as error:
                self.log_error = error
        if lines := self._lines.feed(data) if data else self._lines.finish():
            self._show(self.rank, lines)
        return bool(data)

    def drain(self) -> None:
        for _ in range(READS_TO_DRAIN):
            if not self.read():
                break

    def close(self) -> None:
        """After this the rank's own writes fail with EPIPE, as they would without us."""
        if lines := self._lines.finish():
            self._show(self.rank, lines)
        os.close(self.pipe)
        if self._log:
            self._log.close()


class Pump:
    """A thread that passes on the ranks' output.

    A thread, because our stdout may block for as long as it likes (``| less``); the ranks are watched meanwhile. A
    single one, because then no line can get into another.
    """

    def __init__(self, out: Screen, err: Screen) -> None:
        self._screens = {"out": out, "err": err}
        self._sources: dict[Source, str] = {}
        self._selector = selectors.DefaultSelector()
        self._woken, self._wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._messages: deque[tuple[str, int | None]] = deque()
        self._finishing = False
        self._thread = threading.Thread(target=self._pump, name="unisono-output", daemon=True)

    def add(self, rank: int, stream: str, pipe: int, log: BinaryIO | None = None) -> None:
        source = Source(rank, pipe, self._screens[stream].show, log)
        self._sources[source] = stream if log is None else "log"
        self._selector.register(pipe, selectors.EVENT_READ, source)

    def start(self) -> None:
        self._thread.start()

    def say(self, message: str, after: int | None = None) -> None:
        """A line of our own on stderr, below what rank `after` has written; never blocks."""
        self._messages.append((message, after))
        os.write(self._wake, b"\0")

    def finish(self, impatient: Callable[[], bool]) -> None:
        """Pass on the last lines of ranks that have ended; give up when the user does."""
        if self._thread.ident is None:
            return
        self._finishing = True
        os.write(self._wake, b"\0")
        self._thread.join(0.5)
        while self._thread.is_alive() and not impatient():
            self._thread.join(0.1)

    def _pump(self) -> None:
        while not self._finishing:
            ready = self._selector.select()
            self._print_messages()
            for key, _ in ready:
                if key.data is None:
                    os.read(self._woken, CHUNK)
                elif key.data in self._sources:
                    self._read(key.data)
        for source in list(self._sources):
            source.drain()
            self._drop(source)
        self._print_messages()

    def _read(self, source: Source) -> None:
        had_log = source.log_error is None
        more = source.read()
        if had_log and source.log_error:
            self._messages.append((f"the log of rank {source.rank} is incomplete: {source.log_error.strerror}", None))
        stream = self._sources[source]
        if more is False or (stream != "log" and self._screens[stream].broken):
            self._drop(source)

    def _drop(self, source: Source) -> None:
        del self._sources[source]
        self._selector.unregister(source.pipe)
        source.close()

    def _print_messages(self) -> None:
        while self._messages:
            message, after = self._messages.popleft()
            for source in [source for source in self._sources if source.rank == after]:
                source.drain()
            self._screens["err"].write(f"unisono: {message}\n".encode())
