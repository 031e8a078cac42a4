"""Engines when the interpreter ends: what runs may end, what has not begun does not."""

from __future__ import annotations

import atexit
import threading
from time import monotonic
from typing import TYPE_CHECKING
from weakref import WeakSet

if TYPE_CHECKING:
    from .._native import EngineCore

SECONDS_TO_STOP = 5.0
"""For all of them together."""

_engines: WeakSet[EngineCore] = WeakSet()


def stop_at_exit(engine: EngineCore) -> None:
    _engines.add(engine)


@atexit.register
def _stop_all() -> None:
    engines = list(_engines)  # also closed ones, of which something may still run
    for engine in engines:
        engine.abandon()
    until = monotonic() + SECONDS_TO_STOP
    still_run = [engine for engine in engines if not engine.shut(max(until - monotonic(), 0.0))]
    if still_run or (_engines and any(thread.daemon for thread in threading.enumerate())):
        from .._native import expect_leaks

        expect_leaks()  # what daemon threads have, and what runs for ever, is never let go of
