"""The parameter servers of a job: processes beside its ranks, which are there as long as one of these is."""

from __future__ import annotations

import select
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack
from time import monotonic

from ..config import LOOPBACK
from ..errors import ConfigError
from .job import Job
from .place import Place
from .rank import Crew, Rank

BACKLOG = 1024
MOST = 64  # on one host
SECONDS_TO_END = 3.0


class Server(Rank):
    """One of them. It is no rank, but ends like one."""

    def __str__(self) -> str:
        return f"server {-1 - self.number} (pid {self.pid})"


class Servers:
    """Owns the sockets that listen for them until they have these, and the order of their end."""

    def __init__(self, count: int, threads: int, addresses: list[str] | None = None) -> None:
        """`addresses`: where they will listen themselves; else the launcher finds ports on this host."""
        self.running: list[Server] = []
        self._threads = threads
        self._open = ExitStack()
        self._listeners: list[socket.socket] = []
        if addresses is None:
            for _ in range(count):
                listener = self._open.enter_context(socket.create_server((LOOPBACK, 0), backlog=BACKLOG))
                self._listeners.append(listener)
            addresses = [f"{LOOPBACK}:{listener.getsockname()[1]}" for listener in self._listeners]
        self._addresses = addresses

    def variables(self) -> dict[str, str]:
        """For all processes of the job."""
        if not self._addresses:
            return {}
        return {"UNISONO_SERVERS": ",".join(self._addresses), "UNISONO_SERVER_THREADS": str(self._threads)}

    def start(self, job: Job, crew: Crew, place: Place) -> None:
        for number in range(len(self._addresses)):
            more = {**self.variables(), "UNISONO_SERVER": str(number), "UNISONO_DUMP": "off"}
            inherited = self._listeners[number : number + 1]
            if inherited:
                more["UNISONO_SERVER_LISTENER"] = str(inherited[0].fileno())
            with place.starting(-1 - number) as prepare:
                process = subprocess.Popen(
                    [sys.executable, "-m", "unisono.server.serve"],
                    stdin=subprocess.DEVNULL,
                    stdout=2,
                    env=job.environment(0, more),
                    start_new_session=True,
                    preexec_fn=prepare,
                    pass_fds=[listener.fileno() for listener in inherited],
                )
            server = crew.add(-1 - number, process.pid, process.wait, Server)
            assert isinstance(server, Server)
            self.running.append(server)
        self.close()

    def end(self) -> None:
        """They write what they have to write; who does not end in time is killed with the crew."""
        self._look()
        for server in self.running:
            server.signal(signal.SIGTERM)
        until = monotonic() + SECONDS_TO_END
        while self.running and (left := until - monotonic()) > 0:
            select.select([server.ended for server in self.running], [], [], left)
            self._look()

    def _look(self) -> None:
        for server in self.running:
            server.look()
        self.running = [server for server in self.running if server.returncode is None]

    def close(self) -> None:
        """Once the servers have their copies: who comes to a dead one is refused."""
        self._open.close()


def check_servers(count: int, threads: int, nodes: int) -> None:
    if not 0 <= count <= MOST:
        raise ConfigError(f"--servers {count}: valid is 0 to {MOST}; the nearest is {min(max(count, 0), MOST)}")
    if not 1 <= threads <= MOST:
        raise ConfigError(f"--server-threads {threads}: valid is 1 to {MOST}")
    if count and nodes > 1:
        raise ConfigError(
            "--servers starts them on this host only, and the ranks of others could not reach them: start "
            "`python -m unisono.server.serve` where they shall be, with UNISONO_SERVERS, UNISONO_SERVER, UNISONO_KEY, "
            "UNISONO_JOB and UNISONO_SIZE, and give UNISONO_SERVERS to all ranks"
        )
