"""The libraries that are loaded in this process, whoever loaded them."""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress


def loaded(name: str) -> list[ctypes.CDLL]:
    """Those whose file name begins so. None is loaded for it."""
    with open("/proc/self/maps") as maps:
        paths = {line.split(maxsplit=5)[5].strip() for line in maps if f"/{name}" in line}
    found = []
    for path in paths:
        with suppress(OSError):  # a file of another kind, or deleted meanwhile
            found.append(ctypes.CDLL(path, os.RTLD_NOLOAD | os.RTLD_LAZY))
    return found
