"""Where the threads of this process are."""

from __future__ import annotations

import os
import sys
import threading
import traceback
from collections.abc import Iterable, Sequence
from itertools import chain, islice
from types import FrameType, TracebackType
from typing import NamedTuple

MOST_THREADS = 64
MOST_FRAMES = 48  # of a thread: the innermost

_PACKAGE = os.path.dirname(os.path.dirname(__file__)) + os.sep
_PYTHON = os.path.dirname(os.__file__) + os.sep
_INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")


class Frame(NamedTuple):
    """A function under way."""

    file: str
    line: int
    function: str
    is_users: bool  # neither unisono's, nor Python's, nor an installed package's

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}"


class Thread(NamedTuple):
    """Its frames, the innermost last."""

    name: str
    is_main: bool
    frames: list[Frame]


def current_threads(*, raised: TracebackType | None = None) -> list[Thread]:
    """All threads that run Python, the main thread first; this one is where it raised something, if it did."""
    here = threading.get_ident()
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    main = threading.main_thread().ident
    threads = [
        Thread(
            names.get(ident, f"thread {ident}"),
            ident == main,
            frames_of(raised) if raised and ident == here else _frames(traceback.walk_stack(top)),
        )
        for ident, top in sys._current_frames().items()
    ]
    return sorted(threads, key=lambda thread: not thread.is_main)[:MOST_THREADS]


def frames_of(raised: TracebackType | None) -> list[Frame]:
    """Where something was raised: a traceback begins only where it is caught."""
    if raised is None:
        return []
    callers = raised.tb_frame.f_back
    outer = traceback.walk_stack(callers) if callers else ()
    return _frames(chain(reversed(list(traceback.walk_tb(raised))), outer))


def innermost(frames: Sequence[Frame]) -> Frame | None:
    """The user's line; where there is none, whatever is innermost."""
    users = [frame for frame in frames if frame.is_users]
    return users[-1] if users else frames[-1] if frames else None


def _frames(innermost_first: Iterable[tuple[FrameType, int]]) -> list[Frame]:
    frames: list[Frame] = []
    for frame, line in islice(innermost_first, MOST_FRAMES):
        file, function = frame.f_code.co_filename, frame.f_code.co_qualname
        frames.append(Frame(file, line or 0, function, _is_users(file)))
    return frames[::-1]


def _is_users(file: str) -> bool:
    if file.startswith(("<frozen", _PACKAGE)) or any(part in file for part in _INSTALLED):
        return False
    return not file.startswith(_PYTHON)
