"""The ways to add up gradients, and what each costs: `price`, or lockstep where ranks share the link of a host."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import NamedTuple

from ..interpret.explain import best_price, even_bytes
from ..interpret.machine import Machine
from ..interpret.price import Price, price
from ..schedule.algorithm import Algorithm
from ..schedule.catalog import find
from ..simulate.candidates import schedule_for
from ..simulate.simulation import simulate
from ..simulate.topologies import topology
from .job import Job


class Exchange(NamedTuple):
    """What one exchange of gradients costs, how many hosts compute meanwhile, and with how many servers."""

    alpha: float
    beta: float
    gamma: float
    waiting: float
    workers: int
    servers: int = 0

    @property
    def time(self) -> float:
        return self.alpha + self.beta + self.gamma + self.waiting


class Strategy(NamedTuple):
    """A name, and the exchanges that it offers on so many hosts: one, or one for each number of servers."""

    name: str
    exchanges: Callable[[Job, int, int], Iterator[Exchange]]
    """(job, hosts, bytes)"""


def strategies() -> tuple[Strategy, ...]:
    """All of them."""
    return (
        Strategy("ring", lambda job, hosts, n: _all_ranks("ring", job, hosts, n)),
        Strategy("halving and doubling", lambda job, hosts, n: _all_ranks("halving_doubling", job, hosts, n)),
        Strategy("double binary tree", lambda job, hosts, n: _all_ranks("double_binary_tree", job, hosts, n)),
        Strategy("hierarchical", lambda job, hosts, n: _all_ranks("hierarchical", job, hosts, n)),
        Strategy("servers", lambda job, hosts, n: _dedicated(job, hosts, n, streamed=False)),
        Strategy("servers, streamed", lambda job, hosts, n: _dedicated(job, hosts, n, streamed=True)),
        Strategy("every host serves", lambda job, hosts, n: _everybody_serves(job, hosts, n)),
    )


def _all_ranks(name: str, job: Job, hosts: int, nbytes: int) -> Iterator[Exchange]:
    algorithm = find("allreduce", name)
    if job.per_host == 1:
        yield _of_price(best_price(algorithm, hosts, nbytes, job.between_hosts, even=True), hosts)
        return
    yield _on_hosts(algorithm, job, hosts, nbytes)


def _on_hosts(algorithm: Algorithm, job: Job, hosts: int, nbytes: int) -> Exchange:
    machine, on = job.ranks(hosts), topology(f"hierarchy:{hosts}x{job.per_host}", hosts * job.per_host)
    schedule = schedule_for(algorithm, nbytes, machine, on)
    found = simulate(schedule, even_bytes(schedule, nbytes), machine, on, mode="lockstep")
    return Exchange(*found.terms, workers=hosts)


def _dedicated(job: Job, hosts: int, nbytes: int, *, streamed: bool) -> Iterator[Exchange]:
    """So many of the hosts only serve."""
    algorithm = find("allreduce", "dedicated_servers")
    inside = _inside_a_host(job, nbytes)
    for servers in _counts(hosts - 1):
        segments = {} if streamed else {"segments": 1}
        found = best_price(algorithm, hosts, nbytes, job.between_hosts, even=True, servers=servers, **segments)
        yield _with(_of_price(found, hosts - servers)._replace(servers=servers), inside)


def _everybody_serves(job: Job, hosts: int, nbytes: int) -> Iterator[Exchange]:
    algorithm = find("allreduce", "parameter_servers")
    found = best_price(algorithm, hosts, nbytes, job.between_hosts, even=True, servers=hosts)
    yield _with(_of_price(found, hosts)._replace(servers=hosts), _inside_a_host(job, nbytes))


def _of_price(found: Price, workers: int) -> Exchange:
    """Its terms bound the time from above; where they exceed it, all do in proportion."""
    link, machine = found.machine.link, found.machine
    terms = (found.rounds * link.alpha, found.wire * link.beta, found.arithmetic * machine.gamma)
    scale = found.time / sum(terms) if sum(terms) else 1.0
    alpha, beta, gamma = (term * scale for term in terms)
    return Exchange(alpha, beta, gamma, 0.0, workers)


@lru_cache
def _inside_a_host(job: Job, nbytes: int) -> Price:
    """Ranks of a host add up before their host talks to servers, and hand out after."""
    return price(find("allreduce", "ring").schedule(job.per_host), nbytes, Machine(job.local, job.gamma))


def _with(exchange: Exchange, inside: Price) -> Exchange:
    local = _of_price(inside, 0)
    alpha, beta, gamma = (a + b for a, b in zip(exchange[:3], local[:3], strict=True))
    return exchange._replace(alpha=alpha, beta=beta, gamma=gamma)


def _counts(most: int) -> list[int]:
    """Numbers of servers that are tried: each up to 8, then some between."""
    steps = {*range(1, min(most, 8) + 1), *(most * k // 12 for k in range(1, 12))}
    return sorted(k for k in steps if 1 <= k <= most)
