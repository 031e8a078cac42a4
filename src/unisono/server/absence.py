"""Says that a worker will not come: ``python -m unisono.server.absence``, in the environment of one that has ended."""

from __future__ import annotations

import os
from contextlib import suppress

from ..comm.handshake import Secret
from ..config import read_settings
from ..errors import UnisonoError
from .dial import ABSENCE, Caller, dial
from .settings import read_server_settings

PATIENCE = 60.0  # seconds for the first server to be there


def tell_absence() -> None:
    """To the first server: whoever waits for this worker goes on, unless it had joined."""
    settings, servers = read_settings(), read_server_settings()
    caller = Caller(Secret(settings.job, settings.key.encode()), settings.rank, f"worker {settings.rank}")
    os.close(dial(caller, 0, servers.addresses[0], ABSENCE, PATIENCE).socket)


if __name__ == "__main__":
    with suppress(UnisonoError):  # without servers, nobody waits
        tell_absence()
