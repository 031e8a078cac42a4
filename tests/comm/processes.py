"""Jobs of real processes, for the tests of start-up."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from contextlib import suppress
from types import TracebackType
from typing import Any

from unisono.comm.rendezvous import listen

KEY = "a key for the tests"
REFUSAL = re.compile(r"unisono: rank \d+ of job \S+ \(host \S+, pid \d+\) refused ")


def free_port() -> int:
    with listen("127.0.0.1", key="") as sock:
        return int(sock.getsockname()[1])


class Job:
    """Ranks that are started one by one; whatever happens, none is left."""

    def __init__(self, size: int, **variables: str) -> None:
        self.port = free_port()
        self.size = size
        place = {"UNISONO_SIZE": str(size), "UNISONO_RENDEZVOUS": f"127.0.0.1:{self.port}", "UNISONO_KEY": KEY}
        self.variables = place | {"UNISONO_DEADLINE": "20"} | variables
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
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    # Nothing was forgotten: -W error complains about sockets that are not closed. Ranks may speak of whom they refused.
    assert [line for line in err.splitlines() if not REFUSAL.match(line)] == []
    return json.loads(out)
