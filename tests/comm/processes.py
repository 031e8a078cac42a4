"""Jobs of real processes, for the tests of start-up."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from types import TracebackType
from typing import Any

from unisono.comm.rendezvous import listen

KEY = "a key for the tests"
OTHERS = (
    *("torch_", "sem.", "psm_", "pymp-", "unisono-bench-", "token-"),
    *("sm_segment", "vader_segment", "mpich_shm", "Intel_MPI", "ompi"),
)
"""Names in /dev/shm of what other tests and programs of this machine make at the same time."""

PORTS_OF_A_WORKER = 512
REFUSAL = re.compile(r"unisono: rank \d+ of job \S+ \(host \S+, pid \d+\) refused ")


def shared_memory() -> set[str]:
    """What is in /dev/shm, without what others may make and remove meanwhile."""
    return {name for name in os.listdir("/dev/shm") if not name.startswith(OTHERS)}


def first_port_of_worker(first: int) -> int:
    """Of PORTS_OF_A_WORKER that no other worker of the test run takes."""
    return first + int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % 16 * PORTS_OF_A_WORKER


def ports_of_this_worker() -> Iterator[int]:
    """Below those that the system gives away."""
    first, offset = first_port_of_worker(10_000), random.randrange(PORTS_OF_A_WORKER)
    for i in count():
        yield first + (offset + i) % PORTS_OF_A_WORKER


_PORTS = ports_of_this_worker()


def free_port() -> int:
    """One that stays free until it is used, and is not given again for long."""
    while True:
        with suppress(OSError), listen("127.0.0.1", next(_PORTS), key="") as sock:
            return int(sock.getsockname()[1])


class Job:
    """Ranks that are started one by one; whatever happens, none is left."""

    def __init__(self, size: int, **variables: str) -> None:
        self.port = free_port()
        self.size = size
        place = {"UNISONO_SIZE": str(size), "UNISONO_RENDEZVOUS": f"127.0.0.1:{self.port}", "UNISONO_KEY": KEY}
        self.variables = place | {"UNISONO_DEADLINE": "60"} | variables
        self.ranks: list[subprocess.Popen[str]] = []

    def __enter__(self) -> Job:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for rank in self.ranks:
            with suppress(ProcessLookupError):
                rank.kill()
            rank.communicate()

    def start(
        self,
        rank: int,
        *arguments: str,
        prefix: tuple[str, ...] = (),
        pass_fds: tuple[int, ...] = (),
        module: str = "tests.comm.wired_rank",
        **variables: str,
    ) -> subprocess.Popen[str]:
        inherited = {name: text for name, text in os.environ.items() if not name.startswith("UNISONO_")}
        process = subprocess.Popen(
            [*prefix, sys.executable, "-W", "error", "-m", module, *arguments],
            env=inherited | self.variables | {"UNISONO_RANK": str(rank)} | variables,
            pass_fds=pass_fds,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.ranks.append(process)
        return process

    def start_all(self, *arguments: str) -> Job:
        for rank in range(self.size):
            self.start(rank, *arguments)
        return self

    def reports(self) -> list[dict[str, Any]]:
        return [report_of(process) for process in self.ranks]


def report_of(process: subprocess.Popen[str]) -> Any:
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    # Nothing was forgotten: -W error complains about sockets that are not closed. Ranks may speak of whom they refused.
    assert [line for line in err.splitlines() if not REFUSAL.match(line)] == []
    return json.loads(out)
