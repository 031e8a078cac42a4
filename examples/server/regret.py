"""The regret of stale gradient descent beside the bound of Ho et al. (NIPS 2013), and the lemma that it rests on.

    unisono run -n 4 --servers 2 examples/server/regret.py

Each update is one example's logistic loss f_t; its features have norm 1, so |∇f_t| ≤ L = 1. Iterates stay within
distance R of 0, and so does the optimum (both asserted), so ½|x - x'|² ≤ F² = 2R². Steps are η_t = σ/√t with
σ = F/(L√(2(s+1)P)). T counts the updates of all P workers: then the mean regret is at most 4FL√(2(s+1)P/T). And a read
misses, or has too many of, at most 2s(P-1) updates of others.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from unisono.server import ParameterServers, connect, ssp

FEATURES, RADIUS, LIPSCHITZ = 10, 3.0, 1.0
DIAMETER = np.sqrt(2) * RADIUS  # F


def example(t: int) -> tuple[np.ndarray, float]:
    """Update t, from 1: features of norm 1, and a label that a hidden vector of norm 2 makes likely."""
    random = np.random.default_rng([7, t])
    hidden = np.random.default_rng(7).standard_normal(FEATURES)
    a = random.standard_normal(FEATURES)
    a /= np.linalg.norm(a)
    likely = 1 / (1 + np.exp(-2 * a @ hidden / np.linalg.norm(hidden)))
    return a, 1.0 if random.random() < likely else -1.0


def loss(x: np.ndarray, a: np.ndarray, y: np.ndarray | float) -> np.ndarray:
    return np.logaddexp(0, -y * (a @ x))


def optimum(a: np.ndarray, y: np.ndarray) -> np.ndarray:
    """By Newton's method."""
    x = np.zeros(FEATURES)
    for _ in range(50):
        p = 1 / (1 + np.exp(y * (a @ x)))
        hessian = (a * (p * (1 - p))[:, None]).T @ a
        x += np.linalg.solve(hessian + 1e-9 * np.eye(FEATURES), a.T @ (y * p))
    return x


def descend(servers: ParameterServers, bound: int, clocks: int) -> tuple[np.ndarray, np.ndarray, int]:
    """The losses of this worker's reads, the norms of what it read, and the most missing + extra updates."""
    P, sigma = servers.size, DIAMETER / (LIPSCHITZ * np.sqrt(2 * (bound + 1) * servers.size))
    table = servers.table(f"x{bound}", (FEATURES,), dtype=np.float64, consistency=ssp(bound))
    delays = np.random.default_rng(servers.rank)
    losses, norms = [], []
    for clock in range(clocks):
        t = clock * P + servers.rank + 1
        x, _ = table.pull(info=True)
        a, y = example(t)
        losses.append(loss(x, a, y))
        norms.append(np.linalg.norm(x))
        time.sleep(delays.exponential(0.0005))
        gradient = -y * a / (1 + np.exp(y * (a @ x)))
        table.push(-sigma / np.sqrt(t) * gradient)
        table.clock()
    return np.array(losses), np.array(norms), table.reads.missing_and_extra


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clocks", type=int, default=300)
    clocks = parser.parse_args().clocks
    with connect() as servers:
        P, T = servers.size, servers.size * clocks
        a, y = map(np.array, zip(*(example(t) for t in range(1, T + 1)), strict=True))
        goal = optimum(a, y)
        assert np.linalg.norm(goal) <= RADIUS
        best = loss(goal, a, y).sum()
        total = servers.table("losses", (3,), dtype=np.float64)
        for bound in (0, 2, 5):
            losses, norms, off = descend(servers, bound, clocks)
            assert norms.max() <= RADIUS, norms.max()
            before = total.pull()
            total.push(np.array([losses.sum(), off, 0]))
            total.clock()
            sums = total.pull() - before
            regret = (sums[0] - best) / T
            limit = 4 * DIAMETER * LIPSCHITZ * np.sqrt(2 * (bound + 1) * P / T)
            assert off <= 2 * bound * (P - 1), (off, bound)
            assert regret <= limit, (regret, limit)
            if servers.rank == 0:
                print(f"s = {bound}: mean regret {regret:.4f} ≤ {limit:.3f} after T = {T} updates; "
                      f"missing + extra in a read {off} ≤ {2 * bound * (P - 1)}")  # fmt: skip


if __name__ == "__main__":
    main()
