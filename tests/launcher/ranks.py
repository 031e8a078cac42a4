"""Functions that can be imported, for launch() to run in fresh interpreters."""

import os
import signal
import sys
import time
from pathlib import Path

from unisono.errors import PeerLost

RANK = int(os.environ.get("UNISONO_RANK", -1))


class Stubborn(Exception):
    """Can be pickled, but not made again."""

    def __init__(self, code: int, *, reason: str) -> None:
        super().__init__(f"{reason} ({code})")


def place(*arguments: object) -> tuple[object, ...]:
    names = ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE", "RENDEZVOUS", "KEY", "JOB")
    return os.getpid(), *arguments, *(os.environ[f"UNISONO_{name}"] for name in names)


def fail_on(rank: int) -> None:
    if rank == RANK:
        raise ValueError(f"no such row: {rank}")


def blame_rank_1() -> None:
    if RANK == 1:
        time.sleep(0.5)
        raise ValueError("the cause")
    raise PeerLost("rank 1 is gone")


def raise_stubborn() -> None:
    raise Stubborn(3, reason="no way")


def kill_rank_1() -> None:
    if RANK == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(100 if RANK == 2 else 0)


def leave(code: int) -> None:
    sys.exit(code)


def write() -> None:
    print("out", RANK)
    print("err", RANK, file=sys.stderr)
    os.write(1, b"\xff without an end")


def sleep_for_ever(directory: Path) -> None:
    (directory / str(RANK)).touch()
    time.sleep(100)


def return_a_lock() -> object:
    import threading

    return threading.Lock()


def return_much() -> bytes:
    return bytes([RANK]) * 5_000_000
