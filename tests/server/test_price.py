"""k servers beside the collectives."""

import pytest

from unisono import Link, Machine
from unisono.errors import ConfigError
from unisono.server.price import price_servers

MACHINE = Machine(Link(alpha=0, beta=1e-9), gamma=0)


@pytest.mark.parametrize(("workers", "servers"), [(4, 1), (4, 2), (4, 4), (2, 8), (1, 1)])
def test_servers_cost_what_the_formulas_say(workers: int, servers: int) -> None:
    """Streamed: max(n/B, p·n/(k·B)); one after the other: twice that, and then never below the ring."""
    n = 64 << 20
    price = price_servers(workers, servers, n, MACHINE)
    bound = max(n, workers * n / servers) * 1e-9
    assert price.one_after_the_other == pytest.approx(2 * bound, rel=0.01)
    assert bound <= price.streamed <= 1.05 * bound
    assert price.one_after_the_other >= price.ring
    assert f"{workers} workers, {servers} servers" in str(price)


def test_a_job_without_workers_has_no_price() -> None:
    with pytest.raises(ConfigError):
        price_servers(0, 1, 1)
