"""Hydra, which starts the ranks of MPICH and Intel MPI, answers lines of text on the descriptor PMI_FD (PMI-1).

The descriptor is also MPI's own, if the program uses MPI: it stays blocking and open, and nothing is read from it but
the answers to our lines. Hydra kills a job when a process that has spoken ends without ``finalize``, and listens no
more after it; so that is said when the interpreter ends, unless MPI is there to say it.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import select
import stat
from contextlib import suppress
from time import monotonic

from ...errors import ConfigError, DeadlineExceeded
from .libraries import loaded

INSTEAD = "set the same UNISONO_KEY and UNISONO_RENDEZVOUS=host:port on every rank (mpiexec -genv NAME value)"
SECONDS_TO_LEAVE = 2.0
_speakers: set[tuple[int, int]] = set()  # process and descriptor; a fork is another process, and not Hydra's


def share(where: str, name: str, word: bytes | None, seconds: float) -> bytes:
    pmi = Pmi(where, monotonic() + seconds)
    try:
        pmi.enter()
        space = pmi.ask("get_my_kvsname", "my_kvsname")["kvsname"]
        if word is not None:
            pmi.ask(f"put kvsname={space} key={name} value={word.hex()}", "put_result")
        pmi.ask("barrier_in", "barrier_out")  # what is put is there after it
        return bytes.fromhex(pmi.ask(f"get kvsname={space} key={name}", "get_result")["value"])
    except TimeoutError:
        raise DeadlineExceeded(
            f"mpiexec's Hydra did not answer on PMI_FD={where} in {seconds:g} s; have all ranks called unisono.init()?"
        ) from None
    except (OSError, ValueError, KeyError) as error:
        raise ConfigError(f"mpiexec's Hydra cannot be asked for the job's key: {error}. Else {INSTEAD}") from error


class Pmi:
    """One question after the other, each with its answer."""

    def __init__(self, where: str, deadline: float) -> None:
        self.descriptor = int(where) if where.isdecimal() else -1
        self.deadline = deadline
        self.rest = b""

    def enter(self) -> None:
        speaker = os.getpid(), self.descriptor
        if not stat.S_ISSOCK(os.fstat(self.descriptor).st_mode):  # a child has our variables, not our descriptors
            raise OSError(f"PMI_FD={self.descriptor} is no socket in this process")
        self.ask("init pmi_version=1 pmi_subversion=1", "response_to_init")
        if speaker not in _speakers:
            _speakers.add(speaker)
            atexit.register(leave, *speaker)

    def ask(self, command: str, answer: str) -> dict[str, str]:
        os.write(self.descriptor, f"cmd={command}\n".encode())
        fields = dict(field.split("=", 1) for field in self.line().split())
        if fields.get("cmd") != answer or fields.get("rc", "0") != "0":
            raise ValueError(f"to {command.split()[0]!r} it says {fields.get('msg', fields)}")
        return fields

    def line(self) -> str:
        waiting = select.poll()
        waiting.register(self.descriptor, select.POLLIN)
        while b"\n" not in self.rest:
            if not waiting.poll(max(0.0, self.deadline - monotonic()) * 1000):
                raise TimeoutError
            if not (part := os.read(self.descriptor, 4096)):
                raise OSError("the connection is closed")
            self.rest += part
        line, _, self.rest = self.rest.partition(b"\n")
        return line.decode()


def leave(process: int, descriptor: int) -> None:
    """At the end of the interpreter."""
    if process != os.getpid() or mpi_is_initialized():
        return
    with suppress(OSError, ValueError):  # Hydra is gone, or MPI was here and has said it
        Pmi(str(descriptor), monotonic() + SECONDS_TO_LEAVE).ask("finalize", "finalize_ack")


def mpi_is_initialized() -> bool:
    """Has a library that is loaded in this process initialised MPI, whoever loaded it?"""
    initialized = ctypes.c_int()
    for library in loaded("libmpi"):
        with suppress(AttributeError):  # a library beside MPI's
            library.MPI_Initialized(ctypes.byref(initialized))
    return bool(initialized.value)
