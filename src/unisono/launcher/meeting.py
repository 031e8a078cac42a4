"""Where the ranks of a job meet: a socket that listens already, which rank 0 inherits.

So the port cannot be taken by somebody else between its choice and its use, and ranks that come before rank 0 is ready
wait in the queue instead of being refused.
"""

from __future__ import annotations

import socket
from dataclasses import replace

from ..config import LOOPBACK
from .job import Job

BACKLOG = 1024


class Meeting:
    """Owns the socket until rank 0 has it. A job whose rendezvous the user has chosen has no socket here."""

    def __init__(self, job: Job) -> None:
        self._socket: socket.socket | None = None
        self.job = job
        if not job.rendezvous:
            listener = socket.create_server((LOOPBACK, 0), backlog=BACKLOG)
            self.job = replace(job, rendezvous=f"{LOOPBACK}:{listener.getsockname()[1]}")
            if job.size > 1:
                self._socket = listener
            else:
                listener.close()  # nobody will come

    def descriptors(self) -> tuple[int, ...]:
        """For the next rank to inherit: only the first to be started, rank 0, has any."""
        return (self._socket.fileno(),) if self._socket else ()

    def variables(self) -> dict[str, str]:
        return {"UNISONO_LISTENER": str(self._socket.fileno())} if self._socket else {}

    def close(self) -> None:
        """Once rank 0 has its copy: if it dies, whoever comes is refused instead of waiting in a queue of ours."""
        if self._socket:
            self._socket.close()
            self._socket = None
