"""Parameter servers: the last k ranks each add up one k-th of the vector for all workers."""

from __future__ import annotations

from dataclasses import replace

from .arithmetic import in_rank_order, only, others, where
from .combine import dual, pipelined, then
from .ir import COPY, Get, Number, Put, Rounds, Span, each
from .pattern import pattern


def workers_and_servers(p: int, r: Number, servers: int, workers: int) -> tuple[Number, Number]:
    """Servers and workers; a rank can be both."""
    return 1 * (r >= p - servers), 0 * r


@pattern(alike=workers_and_servers)
def push(p: int, r: Number, servers: int, workers: int) -> Rounds:
    """Every worker (the first ``workers`` ranks) sends one block to each server (the last ``servers`` ranks)."""
    base = p - servers
    server, worker = base + each(servers), others(p, r)
    starts_empty = (r >= workers) & (worker == workers - 1)
    yield (
        Put(only((r < workers) & (server != r), server), Span(server - base)),
        Get(
            only((r >= base) & (worker < workers), worker),
            Span(r - base),
            where(starts_empty, COPY, in_rank_order(worker, r)),
        ),
    )


pull = dual(push, name="pull", summary="Every server sends its block to every worker.", reducing=False)
parameter_server_allreduce = pipelined(
    then(push, pull, name="push_pull", summary="", alike=workers_and_servers),
    name="parameter_server_allreduce",
    summary="Servers add up a share each for all workers; a segment is pulled while the next is pushed.",
    width=lambda p, servers: servers,
)
dedicated_server_allreduce = replace(
    parameter_server_allreduce,
    name="dedicated_server_allreduce",
    summary="As parameter_servers, but the servers have no vectors of their own.",
)
