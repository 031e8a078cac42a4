"""How much a lane takes at once."""

from __future__ import annotations

from ..comm.arguments import whole
from ..errors import ConfigError

MOST = (1 << 63) - 1


def capacity_of(width: int | None, bytes: int | None) -> int:
    """In operations or in bytes: one of the two is given."""
    if (width is None) == (bytes is None):
        raise ConfigError("a lane has a width=, in operations, or bytes=")
    capacity = whole(width if bytes is None else bytes, "width" if bytes is None else "bytes")
    if capacity < 1:
        raise ConfigError(f"a lane of {capacity} takes nothing")
    if capacity > MOST:
        raise ConfigError(f"a lane of {capacity}: at most {MOST} can be counted")
    return capacity
