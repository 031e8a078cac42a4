"""Open MPI's daemons speak PMIx, by a library that comes with Open MPI.

A process of its own talks to them: libpmix 5.0 corrupts its memory when it is initialised again after it was finalised,
so that a program that calls MPI_Init after us would crash; and if we did not finalise it, the daemon would take the end
of a rank for a crash. Where MPI has initialised it before us it counts, and we ask in this process: while it is
connected, a second process of the same rank makes MPI_Finalize hang now and then (1 of 36 runs on a busy machine).
"""

from __future__ import annotations

import ctypes
import subprocess
import sys
from math import ceil
from pathlib import Path

from ...errors import ConfigError, DeadlineExceeded
from . import pmix_client
from .libraries import loaded

INSTEAD = "set the same UNISONO_KEY and UNISONO_RENDEZVOUS=host:port on every rank (mpirun -x NAME=value)"
SECONDS_TO_END = 5.0  # beyond the time that the daemon has to answer


def share(where: str, name: str, word: bytes | None, seconds: float) -> bytes:
    try:
        library = _initialized_library()
        if library is not None:
            return pmix_client.exchange(library, name, word or b"", ceil(seconds))
        return _ask_in_another_process(_find_library(where), name, word, seconds)
    except TimeoutError:
        raise DeadlineExceeded(
            f"Open MPI's daemon had no word of rank 0 in {seconds:g} s; has rank 0 called unisono.init()?"
        ) from None
    except pmix_client.PmixError as error:
        raise ConfigError(f"Open MPI's daemon cannot be asked for the job's key: {error}. Else {INSTEAD}") from error


def _ask_in_another_process(library: str, name: str, word: bytes | None, seconds: float) -> bytes:
    # -I -S: it needs nothing, and starts in 10 ms. The word is a secret, so it is no argument.
    command = [sys.executable, "-I", "-S", pmix_client.__file__, library, name, str(ceil(seconds))]
    try:
        done = subprocess.run(command, input=word or b"", capture_output=True, timeout=seconds + SECONDS_TO_END)
    except subprocess.TimeoutExpired:
        raise DeadlineExceeded(f"Open MPI's daemon did not answer in {seconds:g} s; {INSTEAD}") from None
    if done.returncode == pmix_client.TIMED_OUT:
        raise TimeoutError
    if done.returncode:
        why = done.stderr.decode(errors="replace").strip().splitlines()
        raise pmix_client.PmixError(why[-1] if why else f"exit code {done.returncode}")
    return done.stdout


def _initialized_library() -> ctypes.CDLL | None:
    for library in loaded("libpmix"):
        if library.PMIx_Initialized():
            return library
    return None


def _find_library(where: str) -> str:
    """In one of these folders, or where the loader finds it."""
    for folder in filter(None, where.split(":")):
        for library in ("libpmix.so.2", "libpmix.so"):
            if (path := Path(folder, library)).exists():
                return str(path)
    return "libpmix.so.2"
