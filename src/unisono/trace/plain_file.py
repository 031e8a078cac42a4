"""A named tuple as a file: written at once or not at all, and read as if anybody had written it."""

from __future__ import annotations

import json
import os
import re
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from .plain import from_plain, printable, to_plain

LARGEST_FILE = 16 << 20

T = TypeVar("T")


def write_plain(path: Path, value: Any) -> Path:
    """A file with this name is complete. Only its owner can read what is made here."""
    os.makedirs(path.parent, mode=0o700, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}.{time.monotonic_ns()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with open(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
            json.dump(to_plain(value), file, separators=(",", ":"), ensure_ascii=False)
        os.replace(draft, path)
    except BaseException:
        os.unlink(draft)
        raise
    return path


def read_plain(path: Path, kind: type[T], version: int) -> T:
    """The value; what is wrong with the file is an OSError, a ValueError or a RecursionError."""
    with open(path, "rb", opener=_open_regular) as file:
        data = file.read(LARGEST_FILE + 1)
    if len(data) > LARGEST_FILE:
        raise ValueError(f"it is larger than {LARGEST_FILE >> 20} MiB")
    try:
        value = json.loads(data, parse_constant=_refuse)
    except ValueError:
        raise ValueError("it is empty" if not data else "it is not JSON, or not all of it") from None
    if isinstance(value, dict) and value.get("format") != version:
        raise ValueError(f"it has format {value.get('format')!r}; this version of unisono reads {version}")
    read: T = from_plain(kind, value)
    return read


def read_all(directory: Path, name: re.Pattern[str], read: Callable[[Path], T], skipped: list[str]) -> Iterator[T]:
    """Those with such a name that can be read; the others, and why, are added to what was skipped."""
    for path in sorted(directory.iterdir()):
        if not name.fullmatch(path.name):
            continue
        try:
            yield read(path)
        except (OSError, ValueError, RecursionError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            skipped.append(f"{path.name} was skipped: {printable(reason or type(error).__name__)[:200]}")


def _open_regular(path: str, flags: int) -> int:
    """Without waiting: a pipe would wait for somebody who writes."""
    descriptor = os.open(path, flags | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ValueError("it is not a regular file")
    return descriptor


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)
