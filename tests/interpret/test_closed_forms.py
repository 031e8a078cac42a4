"""Price holds to the closed forms of the literature, and to our own where those are loose.

n bytes, p ranks, L = ⌈log₂ p⌉, l = ⌊log₂ p⌋, f = (p-1)/p, e = p - 2^l (ranks beyond the power of two).
"""

from collections.abc import Callable
from math import ceil, floor, log2

import pytest

from unisono.interpret.machine import Link, Machine
from unisono.interpret.price import price
from unisono.schedule.catalog import find

ALPHA, BETA, GAMMA = 7.0, 0.5, 0.125
MACHINE = Machine(Link(ALPHA, BETA), GAMMA)
RANKS = range(2, 41)
Terms = tuple[float, float, float]


def logs(p: int) -> tuple[int, int, int]:
    low = floor(log2(p))
    return ceil(log2(p)), low, p - 2**low


def core_runs(p: int) -> int:
    """Blocks sent in turn in the core of recursive doubling: runs of 2^k core ranks, of which e stand for two."""
    _, low, extra = logs(p)
    return sum(2**k + min(2**k, extra) for k in range(low))


def recursive_doubling_allgather(p: int, n: int) -> Terms:
    high, low, extra = logs(p)
    if not extra:
        return high, (p - 1) / p * n, 0
    return low + 2, (1 + core_runs(p) + p - 1) * n / p, 0


def recursive_halving_reduce_scatter(p: int, n: int) -> Terms:
    rounds, nbytes, _ = recursive_doubling_allgather(p, n)
    return rounds, nbytes, nbytes


def recursive_doubling_allreduce(p: int, n: int) -> Terms:
    high, low, extra = logs(p)
    return (low + 2, (low + 2) * n, (low + 1) * n) if extra else (high, high * n, high * n)


def halving_doubling_allreduce(p: int, n: int) -> Terms:
    _, low, extra = logs(p)
    core = (2**low - 1) / 2**low
    return (2 * low + 2, (2 * core + 2) * n, (1 + core) * n) if extra else (2 * low, 2 * core * n, core * n)


def bruck_alltoall(p: int, n: int) -> Terms:
    high = logs(p)[0]
    hops = sum(bin(distance).count("1") for distance in range(p))
    return high, hops * n / p, 0


def plus(*parts: Terms) -> Terms:
    return tuple(map(sum, zip(*parts, strict=True)))  # type: ignore[return-value]


def scatter(p: int, n: int) -> Terms:
    return logs(p)[0], (p - 1) / p * n, 0


# Rounds, bytes in turn and bytes reduced in turn, for root 0.
FORMS: dict[tuple[str, str], Callable[[int, int], Terms]] = {
    ("broadcast", "flat"): lambda p, n: (1, (p - 1) * n, 0),
    ("broadcast", "direct"): lambda p, n: (2, 2 * (p - 1) / p * n, 0),
    ("broadcast", "mst"): lambda p, n: (logs(p)[0], logs(p)[0] * n, 0),
    ("broadcast", "ring"): lambda p, n: (logs(p)[0] + p - 1, 2 * (p - 1) / p * n, 0),
    ("broadcast", "recursive_doubling"): lambda p, n: plus(scatter(p, n), recursive_doubling_allgather(p, n)),
    ("broadcast", "pipelined_chain"): lambda p, n: (p - 2 + 8, (p - 2 + 8) * n / 8, 0),
    ("reduce", "flat"): lambda p, n: (1, (p - 1) * n, (p - 1) * n),
    ("reduce", "direct"): lambda p, n: (2, 2 * (p - 1) / p * n, (p - 1) / p * n),
    ("reduce", "mst"): lambda p, n: (logs(p)[0], logs(p)[0] * n, logs(p)[0] * n),
    ("reduce", "ring"): lambda p, n: (p - 1 + logs(p)[0], 2 * (p - 1) / p * n, (p - 1) / p * n),
    ("reduce", "recursive_halving"): lambda p, n: plus(recursive_halving_reduce_scatter(p, n), scatter(p, n)),
    ("scatter", "flat"): lambda p, n: (1, (p - 1) / p * n, 0),
    ("scatter", "mst"): scatter,
    ("gather", "flat"): lambda p, n: (1, (p - 1) / p * n, 0),
    ("gather", "mst"): scatter,
    ("allgather", "flat"): lambda p, n: (1 + logs(p)[0], ((p - 1) / p + logs(p)[0]) * n, 0),
    ("allgather", "mst"): lambda p, n: (2 * logs(p)[0], ((p - 1) / p + logs(p)[0]) * n, 0),
    ("allgather", "ring"): lambda p, n: (p - 1, (p - 1) / p * n, 0),
    ("allgather", "recursive_doubling"): recursive_doubling_allgather,
    ("allgather", "bruck"): lambda p, n: (logs(p)[0], (p - 1) / p * n, 0),
    ("allgather", "direct"): lambda p, n: (1, (p - 1) / p * n, 0),
    ("reduce_scatter", "mst"): lambda p, n: (2 * logs(p)[0], (logs(p)[0] + (p - 1) / p) * n, logs(p)[0] * n),
    ("reduce_scatter", "ring"): lambda p, n: (p - 1, (p - 1) / p * n, (p - 1) / p * n),
    ("reduce_scatter", "recursive_halving"): recursive_halving_reduce_scatter,
    ("reduce_scatter", "circulant"): lambda p, n: (logs(p)[0], (p - 1) / p * n, (p - 1) / p * n),
    ("reduce_scatter", "direct"): lambda p, n: (1, (p - 1) / p * n, (p - 1) / p * n),
    ("allreduce", "flat"): lambda p, n: (2, 2 * (p - 1) * n, (p - 1) * n),
    ("allreduce", "mst"): lambda p, n: (2 * logs(p)[0], 2 * logs(p)[0] * n, logs(p)[0] * n),
    ("allreduce", "exchange"): lambda p, n: (1, (p - 1) * n, (p - 1) * n),
    ("allreduce", "direct"): lambda p, n: (2, 2 * (p - 1) / p * n, (p - 1) / p * n),
    ("allreduce", "ring"): lambda p, n: (2 * (p - 1), 2 * (p - 1) / p * n, (p - 1) / p * n),
    ("allreduce", "recursive_doubling"): recursive_doubling_allreduce,
    ("allreduce", "halving_doubling"): halving_doubling_allreduce,
    ("allreduce", "circulant"): lambda p, n: (2 * logs(p)[0], 2 * (p - 1) / p * n, (p - 1) / p * n),
    ("alltoall", "pairwise"): lambda p, n: (p - 1, (p - 1) / p * n, 0),
    ("alltoall", "bruck"): bruck_alltoall,
    ("barrier", "dissemination"): lambda p, n: (logs(p)[0], 0, 0),
    ("barrier", "exchange"): lambda p, n: (1, 0, 0),
    ("barrier", "flat"): lambda p, n: (2, 0, 0),
    ("scan", "recursive_doubling"): lambda p, n: (logs(p)[0], logs(p)[0] * n, logs(p)[0] * n),
}


@pytest.mark.parametrize(("collective", "name"), FORMS)
def test_price_equals_the_closed_form(collective: str, name: str) -> None:
    for p in RANKS:
        schedule = find(collective, name).schedule(p)
        n = schedule.blocks * p * 24
        cost = price(schedule, n, MACHINE)
        rounds, nbytes, reduced = FORMS[collective, name](p, n)
        assert (cost.rounds, cost.wire, cost.arithmetic) == pytest.approx((rounds, nbytes, reduced), rel=1e-12), p
        assert cost.time == pytest.approx(rounds * ALPHA + nbytes * BETA + reduced * GAMMA, rel=1e-12), p


@pytest.mark.parametrize("name", ["mst"])
@pytest.mark.parametrize("collective", ["broadcast", "reduce"])
def test_the_tree_costs_the_same_from_every_root(collective: str, name: str) -> None:
    for p in range(1, 18):
        costs = {price(find(collective, name).schedule(p, root), 960, MACHINE).time for root in range(p)}
        assert len(costs) == 1


def scatter_blocks(p: int, root: int) -> int:
    """Blocks sent in turn by the halving rule: in each level, the most that a holder sends to the half it is not in."""
    lines, total = [(0, p, root)], 0
    while any(last - first > 1 for first, last, _ in lines):
        halves, sent = [], [0]
        for first, last, holder in lines:
            middle = (first + last + 1) // 2
            low = holder < middle
            if last - first > 1:
                sent.append(last - middle if low else middle - first)
                halves += [(first, middle, holder if low else first), (middle, last, middle if low else holder)]
        total += max(sent)
        lines = halves
    return total


@pytest.mark.parametrize("collective", ["scatter", "gather"])
def test_the_scatter_tree_sends_fn_from_root_0_or_for_powers_of_two_and_up_to_a_block_more_per_level(
    collective: str,
) -> None:
    most = 0
    for p in range(2, 34):
        for root in range(p):
            cost = price(find(collective, "mst").schedule(p, root), p * 24, MACHINE)
            assert cost.wire == scatter_blocks(p, root) * 24
            assert p - 1 <= scatter_blocks(p, root) <= p - 1 + logs(p)[0] - 1
            if root == 0 or p & (p - 1) == 0:
                assert scatter_blocks(p, root) == p - 1
            most = max(most, scatter_blocks(p, root) - p)
    assert most == 1, "the literature's n, that is p blocks, is not always enough"


def test_the_chain_costs_the_same_from_every_root_and_is_best_where_the_formula_says() -> None:
    for p in range(2, 12):
        for k in (1, 3, 8):
            for root in range(p):
                cost = price(find("broadcast", "pipelined_chain").schedule(p, root, segments=k), 24 * k, MACHINE)
                assert cost.time == pytest.approx((p - 2 + k) * (ALPHA + 24 * BETA))
    p, n = 10, 1 << 20
    bound = (((p - 2) * ALPHA) ** 0.5 + (n * BETA) ** 0.5) ** 2
    best = min(
        price(find("broadcast", "pipelined_chain").schedule(p, segments=1 << k), n, MACHINE).time for k in range(14)
    )
    assert bound <= best <= 1.02 * bound


@pytest.mark.parametrize(
    ("name", "dims"), [("mesh_2d", (5, 3)), ("mesh_2d", (4, 4)), ("mesh_3d", (4, 3, 2)), ("mesh_3d", (1, 6, 2))]
)
def test_bucket_allreduce_on_a_mesh_has_a_ring_per_dimension(name: str, dims: tuple[int, ...]) -> None:
    p = 1
    for extent in dims:
        p *= extent
    n = p * 24
    cost = price(find("allreduce", name).schedule(p, dims=dims), n, MACHINE)
    f = (p - 1) / p
    assert cost.rounds == 2 * sum(extent - 1 for extent in dims)
    assert (cost.wire, cost.arithmetic) == pytest.approx((2 * f * n, f * n))


@pytest.mark.parametrize(("hosts", "ranks"), [(1, 4), (2, 3), (4, 4), (5, 2), (3, 1)])
def test_hierarchical_allreduce_sends_a_share_of_the_vector_between_hosts(hosts: int, ranks: int) -> None:
    m, g, near = hosts, ranks, Link(0.5, 0.01)
    n, p = m * g * 24, m * g
    machine = Machine(Link(ALPHA, BETA), GAMMA, local=near, hosts=(g,) * m)
    cost = price(find("allreduce", "hierarchical").schedule(p, hosts=(g,) * m), n, machine)
    inside = 2 * (g - 1) * near.alpha + 2 * (g - 1) / g * n * near.beta
    between = 2 * (m - 1) * ALPHA + 2 * (m - 1) / m * n / g * BETA
    assert cost.time == pytest.approx(inside + between + (p - 1) / p * n * GAMMA)


@pytest.mark.parametrize("segments", [1, 2, 16])
@pytest.mark.parametrize(("workers", "servers"), [(6, 1), (6, 2), (4, 4), (3, 6)])
def test_dedicated_servers_stream_push_and_pull(workers: int, servers: int, segments: int) -> None:
    n = workers * servers * segments * 24
    schedule = find("allreduce", "dedicated_servers").schedule(workers + servers, servers=servers, segments=segments)
    cost = price(schedule, n, MACHINE)
    busiest = max(n, workers * n / servers) / segments
    assert cost.rounds == segments + 1
    assert cost.wire == pytest.approx((segments + 1) * busiest)
    assert cost.arithmetic == pytest.approx((workers - 1) * n / servers)
    if segments == 1:
        assert cost.wire == pytest.approx(2 * max(n, workers * n / servers))


@pytest.mark.parametrize("segments", [1, 2, 10])
@pytest.mark.parametrize("servers", [1, 3, 4, 5])
def test_ranks_that_double_as_servers_receive_from_one_worker_less(servers: int, segments: int) -> None:
    p, n = 5, 5 * 12 * 10 * 24
    schedule = find("allreduce", "parameter_servers").schedule(p, servers=servers, segments=segments)
    cost = price(schedule, n, MACHINE)
    assert cost.rounds == segments + 1
    assert cost.wire == pytest.approx(n / servers / segments * (2 * (p - 1) + (segments - 1) * (p + servers - 2)))
    assert cost.arithmetic == pytest.approx((p - 1) * n / servers)


@pytest.mark.parametrize("segments", [1, 2, 10])
@pytest.mark.parametrize("shares", [(1, 1, 1, 1), (3, 1), (2, 2, 2, 0), (5, 3, 2, 1, 1)])
def test_weighted_shares_cost_the_rank_with_the_most_to_pass_on(shares: tuple[int, ...], segments: int) -> None:
    p, n = len(shares), sum(shares) * 10 * 24
    cost = price(find("allreduce", "weighted").schedule(p, shares=shares, segments=segments), n, MACHINE)
    weights = [share / sum(shares) for share in shares]
    ends = max(max(1 - w, (p - 1) * w) for w in weights)
    middle = max(1 + (p - 2) * w for w in weights)
    assert cost.rounds == segments + 1
    assert cost.wire == pytest.approx(n / segments * (2 * ends + (segments - 1) * middle))
    assert cost.arithmetic == pytest.approx(max((p - 1) * w for w in weights) * n)


@pytest.mark.parametrize("segments", [1, 4, 64, 1024])
def test_two_trees_send_twice_the_vector_once_the_pipeline_is_full(segments: int) -> None:
    for p in (*range(4, 20), 64, 100):
        n = segments * 2 * 24
        high = logs(p)[0]
        cost = price(find("allreduce", "double_binary_tree").schedule(p, segments=segments), n, MACHINE)
        assert cost.rounds == 2 * high + segments - 1
        assert 2 * n <= cost.wire <= 2 * n * (1 + 2 * high / segments)


BOUNDS = {
    "broadcast": (1, 0),
    "reduce": (1, "f"),
    "scatter": ("f", 0),
    "gather": ("f", 0),
    "allgather": ("f", 0),
    "reduce_scatter": ("f", "f"),
    "allreduce": ("2f", "f"),
    "alltoall": ("f", 0),
}


@pytest.mark.parametrize("collective", BOUNDS)
def test_lower_bounds_are_those_of_the_literature(collective: str) -> None:
    for p in (2, 3, 8, 100):
        f = {"f": (p - 1) / p, "2f": 2 * (p - 1) / p, 0: 0, 1: 1}
        nbytes, reduced = BOUNDS[collective]
        bound = find(collective, next(name for c, name in FORMS if c == collective)).collective.bound(p, 1000)
        assert bound == pytest.approx((ceil(log2(p)), 1000 * f[nbytes], 1000 * f[reduced]))
