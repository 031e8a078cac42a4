"""Open MPI's daemons speak PMIx, by a library that comes with Open MPI.

A process of its own talks to them: libpmix 5.0 corrupts its memory when a process initialises it a second time, so that
a program that calls MPI_Init after us would crash; and if it were never finalised, its daemon would take the end of a
rank for a crash. The daemon does not mind a second process of a rank, before MPI_Init or after it.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from ...errors import ConfigError, DeadlineExceeded
from . import pmix_client

INSTEAD = "set the same UNISONO_KEY and UNISONO_RENDEZVOUS=host:port on every rank (mpirun -x NAME=value)"
SECONDS_TO_END = 5.0  # beyond the time that the daemon has to answer


def share(where: str, name: str, word: bytes | None, seconds: float) -> bytes:
    library = _find_library(where)
    # -I -S: it needs nothing, and starts in 10 ms. The word is a secret, so it is no argument.
    command = [sys.executable, "-I", "-S", pmix_client.__file__, library, name, f"{seconds:.0f}"]
    try:
        done = subprocess.run(command, input=word or b"", capture_output=True, timeout=seconds + SECONDS_TO_END)
    except subprocess.TimeoutExpired:
        raise DeadlineExceeded(f"Open MPI's daemon did not answer in {seconds:g} s; {INSTEAD}") from None
    if done.returncode == pmix_client.TIMED_OUT:
        raise DeadlineExceeded(
            f"Open MPI's daemon had no word of rank 0 in {seconds:g} s; has rank 0 called unisono.init()?"
        )
    if done.returncode:
        why = (done.stderr.decode(errors="replace").strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise ConfigError(f"Open MPI's daemon cannot be asked for the job's key: {why}. Else {INSTEAD}")
    return done.stdout


def _find_library(where: str) -> str:
    """In one of these folders, or where the loader finds it."""
    for folder in filter(None, where.split(":")):
        for library in ("libpmix.so.2", "libpmix.so"):
            if (path := Path(folder, library)).exists():
                return str(path)
    return "libpmix.so.2"
