"""To come to somebody who may have several addresses."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable
from typing import TypeVar

from .conversation import Talk
from .frames import Channel

Target = TypeVar("Target")


def call_first(
    targets: Iterable[tuple[int, Target]], greet: Callable[[Channel, Target], Talk[None]]
) -> Talk[tuple[Channel, Target]]:
    """The first of these, each with its family of addresses, where `greet` connects and succeeds. OSError, the last
    one, if there is none; what else it raises ends the search."""
    why: OSError = ConnectionRefusedError()
    for family, target in targets:
        channel = Channel(socket.socket(family, socket.SOCK_STREAM))
        try:
            yield from greet(channel, target)
            return channel, target
        except OSError as error:
            channel.close()
            why = error
        except BaseException:
            channel.close()
            raise
    raise why
