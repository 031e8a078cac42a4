"""What k parameter servers cost, beside the collectives: the same α, β, γ, and the same schedules."""

from __future__ import annotations

from typing import NamedTuple

from ..errors import ConfigError
from ..interpret.machine import DEFAULT, Machine
from ..interpret.price import price
from ..schedule.catalog import find

CHUNK = 256 << 10  # as native/server/frame.hpp has it


class ServerPrice(NamedTuple):
    """Seconds for pushing and pulling a vector once, by all workers."""

    workers: int
    servers: int
    nbytes: int
    streamed: float
    """Pushed and pulled at the same time, as asynchronous tables do: the next chunk goes while the last one comes."""
    one_after_the_other: float
    """First all of it there, then all of it back, as clocked tables do."""
    ring: float
    """The workers alone, by a ring allreduce."""

    def __str__(self) -> str:
        return (
            f"{self.workers} workers, {self.servers} servers, {self.nbytes} bytes: push_pull "
            f"{self.streamed * 1e3:.3g} ms, push and then pull {self.one_after_the_other * 1e3:.3g} ms, ring allreduce "
            f"{self.ring * 1e3:.3g} ms"
        )


def price_servers(workers: int, servers: int, nbytes: int, machine: Machine = DEFAULT) -> ServerPrice:
    """By the schedule of dedicated servers, with as many segments as a shard has chunks, and with one."""
    if workers < 1 or servers < 1 or nbytes < 0:
        raise ConfigError(f"{workers} workers, {servers} servers, {nbytes} bytes: at least one of each")
    chunks = max(1, -(-nbytes // servers // CHUNK))
    algorithm = find("allreduce", "dedicated_servers")
    size = workers + servers

    def seconds(segments: int) -> float:
        schedule = algorithm.schedule(size, servers=servers, segments=segments)
        return price(schedule, nbytes, machine).time

    ring = price(find("allreduce", "ring").schedule(workers), nbytes, machine).time if workers > 1 else 0.0
    return ServerPrice(workers, servers, nbytes, seconds(chunks), seconds(1), ring)
