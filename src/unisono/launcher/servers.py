"""The parameter servers of a job: processes beside its ranks, which are there as long as one of these is."""

from __future__ import annotations

import select
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack, suppress
from time import monotonic

from ..config import LOOPBACK
from ..errors import ConfigError
from .job import Job
from .place import Place
from .rank import Crew, Rank

BACKLOG = 1024
MOST = 64  # on one host
SECONDS_TO_END = 3.0
MOST_PORTS = 65535


class Server(Rank):
    """One of them. It is no rank, but ends like one."""

    def __str__(self) -> str:
        return f"server {-1 - self.number} (pid {self.pid})"


class Messenger(Rank):
    """A process that tells them something. Nobody waits for it."""


class Servers:
    """Owns the sockets that listen for them until they have these, and the order of their end."""

    def __init__(self, count: int, threads: int, addresses: list[str] | None = None, *, here: bool = True) -> None:
        """`addresses`: where they will listen themselves; else the launcher finds ports on this host. If they are not
        `here`, the launcher of another host starts them."""
        self.running: list[Server] = []
        self._here = here
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
        for number in range(len(self._addresses) if self._here else 0):
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
                    process_group=0,
                    preexec_fn=prepare,
                    pass_fds=[listener.fileno() for listener in inherited],
                )
            server = crew.add(-1 - number, process.pid, process.wait, Server)
            assert isinstance(server, Server)
            self.running.append(server)
        self.close()

    def tell_absence(self, job: Job, crew: Crew, place: Place, rank: int) -> None:
        """Of a rank that has ended: it may not have come to them, who wait for it then."""
        if not self._addresses:
            return
        more = {**self.variables(), "UNISONO_DUMP": "off"}
        # Threads of ours run by now: what is called before the program takes no locks that they could hold.
        with suppress(OSError), place.starting(rank) as prepare:  # its host may be gone, too
            process = subprocess.Popen(
                [sys.executable, "-m", "unisono.server.absence"],
                stdin=subprocess.DEVNULL,
                stdout=2,
                env=job.environment(rank - job.rank(0), more),
                process_group=0,
                preexec_fn=prepare,
            )
            crew.add(rank, process.pid, process.wait, Messenger)

    def end_when_nobody_is_left(self, interrupted: int) -> None:
        """On success: ranks of other hosts may still need them. Until this descriptor is readable."""
        self._look()
        first = [server for server in self.running if server.number == -1]
        for server in first:
            server.signal(signal.SIGUSR1)
        if first:
            select.select([interrupted, *(server.ended for server in first)], [], [])

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


def check_servers(count: int, threads: int) -> None:
    if not 0 <= count <= MOST:
        raise ConfigError(f"--servers {count}: valid is 0 to {MOST}; the nearest is {min(max(count, 0), MOST)}")
    if not 1 <= threads <= MOST:
        raise ConfigError(f"--server-threads {threads}: valid is 1 to {MOST}")


def describe_servers(count: int, threads: int, job: Job) -> Servers:
    """What the user wants. In a job on several hosts they are all on the first one, and listen at the ports that follow
    that of the rendezvous: the launchers do not talk to each other, and each has to know them."""
    check_servers(count, threads)
    if job.nodes == 1 or not count:
        return Servers(count, threads)
    host, _, port = job.rendezvous.rpartition(":")
    if int(port) + count > MOST_PORTS:
        raise ConfigError(
            f"--servers {count} listen at the {count} ports after that of --rendezvous {job.rendezvous}, and there are "
            f"not so many: choose a port of up to {MOST_PORTS - count}"
        )
    addresses = [f"{host}:{int(port) + 1 + number}" for number in range(count)]
    return Servers(count, threads, addresses, here=job.node_rank == 0)
