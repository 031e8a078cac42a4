"""Sparse logistic regression with L2, against the optimum that scikit-learn finds.

    unisono run -n 4 --servers 2 examples/server/logistic.py

Features are Zipf-distributed words: a worker pulls and pushes the rows that its examples have, and nothing else.
"""

from __future__ import annotations

import argparse

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression

from unisono.server import ParameterServers, connect, ssp

EXAMPLES, WORDS, EACH, L2 = 2000, 300, 12, 1.0


def data() -> tuple[csr_matrix, np.ndarray]:
    random = np.random.default_rng(3)
    popularity = 1 / np.arange(1, WORDS + 1)
    words = np.array([random.choice(WORDS, EACH, False, popularity / popularity.sum()) for _ in range(EXAMPLES)])
    x = csr_matrix((np.ones(words.size), words.ravel(), np.arange(0, words.size + 1, EACH)), (EXAMPLES, WORDS))
    hidden = random.standard_normal(WORDS)
    y = np.where(random.random(EXAMPLES) < 1 / (1 + np.exp(-(x @ hidden))), 1.0, -1.0)
    return x, y


def objective(w: np.ndarray, x: csr_matrix, y: np.ndarray) -> float:
    return float(np.logaddexp(0, -y * (x @ w)).sum() + L2 / 2 * w @ w)


def train(servers: ParameterServers, clocks: int) -> np.ndarray:
    x, y = data()
    mine = np.arange(servers.rank, EXAMPLES, servers.size)
    table = servers.table("w", width=1, dtype=np.float64, update="adagrad", lr=0.3, consistency=ssp(2))
    for clock in range(clocks):
        batch = mine if clock > clocks // 2 else np.random.default_rng([servers.rank, clock]).choice(mine, 200)
        some, labels = x[batch], y[batch]
        words = np.unique(some.indices)
        w = np.zeros(WORDS)
        w[words] = table.pull(words).ravel()
        pull = -labels / (1 + np.exp(labels * (some @ w)))
        share = len(batch) / EXAMPLES
        gradient = some.T @ pull + share * L2 * w
        table.push(words, gradient[words, None])
        table.clock()
    meet = servers.counters("end")
    meet.clock()
    meet.pull()
    return table.pull(np.arange(WORDS), info=True)[0].ravel()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clocks", type=int, default=400)
    options = parser.parse_args()
    with connect() as servers:
        w = train(servers, options.clocks)
        if servers.rank:
            return
        x, y = data()
        best = LogisticRegression(C=1 / L2, fit_intercept=False, tol=1e-8, max_iter=5000).fit(x, y).coef_.ravel()
        ours, least = objective(w, x, y), objective(best, x, y)
        print(f"objective {ours:.3f}, scikit-learn's optimum {least:.3f}: {100 * (ours / least - 1):.3f} % above")
        assert least * (1 - 1e-6) <= ours <= 1.005 * least


if __name__ == "__main__":
    main()
