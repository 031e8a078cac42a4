"""A worker's connection to the servers of its job, or to shards of its own where there are none."""

from __future__ import annotations

import atexit
import os
import secrets
import socket
import weakref
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from zlib import crc32

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from ..comm.fork import in_a_forked_child
from ..comm.handshake import Secret
from ..config import Settings, parse_address, read_settings
from ..errors import ConfigError, PeerLost, UnisonoError
from .arguments import name_of_table, path_of_snapshot
from .consistency import Consistency, bsp
from .dial import Caller, dial
from .rules import Rule, Rules
from .settings import ServerSettings, read_server_settings
from .sparse import SparseTable
from .table import DenseTable
from .waiting import Waiting

if TYPE_CHECKING:
    from .._native import ParameterShards, ParameterWorker

FAREWELL = 2.0  # seconds for leaving in good order
_open: weakref.WeakSet[ParameterServers] = weakref.WeakSet()


def connect(
    servers: Sequence[str] | None = None,
    *,
    rank: int | None = None,
    size: int | None = None,
    deadline: float | None = None,
    key: str | None = None,
    job: str | None = None,
) -> ParameterServers:
    """The servers of this job: those that ``unisono run --servers`` started, or these addresses. A process that nobody
    launched has them in itself. Every blocking call has the deadline, in seconds, unless it is given its own."""
    settings = read_settings(rank=rank, size=size, deadline=deadline, key=key, job=job)
    told = read_server_settings()
    if servers is not None:
        addresses = tuple(parse_address("servers", text) for text in servers)
        told = ServerSettings(addresses, told.threads, grace=told.grace)
    if told.addresses:
        return ParameterServers(settings, told)
    if settings.size > 1:
        raise ConfigError(
            f"rank {settings.rank} of {settings.size} has no parameter servers: start the job with "
            "`unisono run --servers 1`, or set UNISONO_SERVERS"
        )
    return ParameterServers(settings, told)


class ParameterServers:
    """What a worker has of the servers. Close it, or use it in a ``with``: then the others do not wait for it."""

    def __init__(self, settings: Settings, servers: ServerSettings) -> None:
        try:
            from .._native import ParameterWorker
        except ModuleNotFoundError as error:
            raise ConfigError("unisono was installed without its native core, which has parameter servers") from error
        self.rank = settings.rank
        self.size = settings.size
        self._settings = settings
        self._servers = servers
        self._name = f"worker {settings.rank} (host {settings.host})"
        self._own: ParameterShards | None = None if servers.addresses else _shards_of_our_own(servers)
        self._tables: dict[str, DenseTable | SparseTable] = {}
        self._links: dict[int, str] = {}
        self._closed = False
        self._worker: ParameterWorker = ParameterWorker(settings.rank, secrets.randbits(63) | 1, max(1, servers.shards))
        self._waiting = Waiting(self._worker, self.rank, self._name, servers.threads, self._dial, settings.deadline)
        secret = Secret(settings.job, settings.key.encode())
        self._caller = Caller(secret, settings.rank, self._name, shares=settings.links != "tcp")
        for shard in self._worker.detached():
            self._dial(shard, settings.start_timeout)
        _open.add(self)
        in_a_forked_child(self, ParameterServers._let_go)

    def table(
        self,
        name: str,
        shape: int | tuple[int, ...] | None = None,
        *,
        width: int | None = None,
        dtype: DTypeLike = np.float32,
        wire: DTypeLike | None = None,
        update: str | type[Rule] = "add",
        consistency: Consistency = bsp,
        init: ArrayLike | str = 0.0,
        scale: float = 0.01,
        seed: int = 0,
        **options: Any,
    ) -> Any:
        """A dense table of this shape, or, with ``width``, a sparse one of rows with int64 keys. All workers describe
        it alike. ``init`` is a number, an array, or "uniform": between -scale and scale, the same on every run.
        ``wire`` ("float16", "bfloat16") is how values travel; ``options`` are those of the update."""
        self._usable()
        name = name_of_table(name)
        if name in self._tables:
            raise ConfigError(f"this worker has a table {name!r} already")
        if (shape is None) == (width is None):
            raise ConfigError(f"table {name!r}: give a shape (dense) or a width (sparse rows), not both or none")
        kind: type[DenseTable] | type[SparseTable] = DenseTable if width is None else SparseTable
        extent = shape if width is None else width
        table = kind(
            self._worker, self._waiting, self.rank, name, crc32(name.encode()), extent,
            dtype=dtype, wire=wire, update=update, consistency=consistency, init=init, scale=scale, seed=seed,
            options=options,
        )  # fmt: skip
        self._tables[name] = table
        return table

    def counters(self, name: str, count: int = 1, *, consistency: Consistency = bsp) -> DenseTable:
        """Whole numbers that workers add to: a dense table of int64."""
        table: DenseTable = self.table(name, (count,), dtype=np.int64, update="add", consistency=consistency)
        return table

    def snapshot(self, directory: str | os.PathLike[str], *, deadline: float | None = None) -> None:
        """Writes all tables to a directory on the servers' hosts, at one place in the order of all clocks."""
        self._ask("snapshot", directory, deadline)

    def restore(self, directory: str | os.PathLike[str], *, deadline: float | None = None) -> None:
        """Loads what ``snapshot`` wrote, before the first table is made. Workers go on at the clocks of then."""
        self._ask("restore", directory, deadline)

    def status(self, *, deadline: float | None = None) -> dict[str, Any]:
        """Members, clocks of tables, and who waited for whom, as the first server knows them."""
        self._usable()
        return self._waiting.status(deadline)

    @property
    def links(self) -> list[str]:
        """How each shard is reached: "shm" through memory that it shares with this process, or "tcp"."""
        return [kind for _, kind in sorted(self._links.items())]

    def report(self) -> str:
        """How stale the reads of this worker were, and whom it waited for."""
        return "\n".join(table.report() for table in self._tables.values())

    def close(self) -> None:
        """Leaves: what was not committed is forgotten, and nobody waits for this worker any more."""
        if self._closed:
            return
        self._closed = True
        _open.discard(self)
        with suppress(UnisonoError):
            if not self._waiting.failure:
                self._waiting.wait(self._worker.request("leave"), "close", FAREWELL, explain=False)
        self._waiting.close()
        self._worker.close()
        if self._own:
            own, self._own = self._own, None
            own.close()
            if (failure := own.failure()) and not self._waiting.failure:
                raise PeerLost(f"{self._name} in close: {failure}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _ask(self, kind: str, directory: str | os.PathLike[str], deadline: float | None) -> None:
        self._usable()
        self._waiting.wait(self._worker.request(kind, path_of_snapshot(directory)), kind, deadline)

    def _usable(self) -> None:
        if self._waiting.failure:
            raise self._waiting.failure
        if self._closed:
            raise ConfigError(f"{self._name} has left the parameter servers")

    def _dial(self, shard: int, patience: float) -> None:
        if self._own:
            from .._native import make_lane

            ours, theirs = socket.socketpair()
            lane = make_lane()
            self._own.adopt_worker(theirs.detach(), self.rank, shard, os.dup(lane.descriptor()))
            self._worker.attach(shard, ours.detach(), lane)
            self._links[shard] = "shm"
            return
        server, thread = divmod(shard, self._servers.threads)
        address = self._servers.addresses[server]
        line = dial(self._caller, server, address, thread, patience)
        self._worker.attach(shard, line.socket, line.lane)
        self._links[shard] = "shm" if line.lane else "tcp"

    def _let_go(self) -> None:
        """In a forked child: it is the parent's."""
        self._closed = True


def _shards_of_our_own(servers: ServerSettings) -> ParameterShards:
    from .._native import ParameterShards

    return ParameterShards(
        server=0,
        servers=1,
        threads=1,
        workers=1,
        grace=servers.grace,
        log=servers.log,
        memory=servers.memory,
        rules=Rules(),
    )


@atexit.register
def _leave_all() -> None:
    for servers in list(_open):
        servers.close()
