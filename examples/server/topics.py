"""Latent Dirichlet allocation by collapsed Gibbs sampling, on the Reuters texts that PyPI's `lda` brings along.

    unisono run -n 4 --servers 2 examples/server/topics.py

Workers sample the topics of their own documents' words; the counts of words in topics are a sparse table that all add
to. The log-likelihood ends within 3 % of what `lda` itself reaches in as many iterations on one processor.
"""

from __future__ import annotations

import argparse
import logging
from math import lgamma

import numpy as np

from unisono.server import ParameterServers, connect, ssp

TOPICS, ALPHA, ETA = 10, 0.1, 0.01


def corpus(documents: int) -> np.ndarray:
    """Documents × words: how often."""
    import lda.datasets

    counts = np.asarray(lda.datasets.load_reuters())[:documents]
    return counts[:, counts.any(0)]


def log_likelihood(words: np.ndarray, documents: np.ndarray) -> float:
    """Of words and topics together, of counts words × topics and documents × topics."""

    def part(counts: np.ndarray, prior: float) -> float:
        """Of one row after the other."""
        n = counts.shape[1]
        constant = lgamma(n * prior) - n * lgamma(prior)
        some = sum(lgamma(x + prior) - lgamma(prior) for x in counts[counts > 0].tolist())
        each = sum(constant + n * lgamma(prior) - lgamma(x + n * prior) for x in counts.sum(1).tolist())
        return some + each

    return part(words.T, ETA) + part(documents, ALPHA)


class Sampler:
    """The documents of one worker."""

    def __init__(self, counts: np.ndarray, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.document, word = np.nonzero(counts)
        repeats = counts[self.document, word]
        self.document, self.word = np.repeat(self.document, repeats), np.repeat(word, repeats)
        self.topic = self.random.integers(0, TOPICS, len(self.word))
        self.of_documents = np.zeros((len(counts), TOPICS), np.int64)
        np.add.at(self.of_documents, (self.document, self.topic), 1)

    def sweep(self, words: np.ndarray, sums: np.ndarray, vocabulary: int) -> None:
        """Every word of every document once, with counts of words × topics that are changed on the way."""
        draws = self.random.random(len(self.word)).tolist()
        for n, (d, w, k) in enumerate(
            zip(self.document.tolist(), self.word.tolist(), self.topic.tolist(), strict=True)
        ):
            row, mine = words[w], self.of_documents[d]
            row[k] -= 1
            sums[k] -= 1
            mine[k] -= 1
            weights = np.cumsum((np.maximum(row, 0) + ETA) * (mine + ALPHA) / (np.maximum(sums, 0) + vocabulary * ETA))
            k = int(np.searchsorted(weights, draws[n] * weights[-1]))
            row[k] += 1
            sums[k] += 1
            mine[k] += 1
            self.topic[n] = k


def train(servers: ParameterServers, counts: np.ndarray, clocks: int) -> float:
    """The log-likelihood of the end, by the counts of all."""
    mine = counts[servers.rank :: servers.size]
    vocabulary = counts.shape[1]
    sampler = Sampler(mine, servers.rank)
    table = servers.table("words", width=TOPICS, dtype=np.int64, consistency=ssp(1))
    everything = np.arange(vocabulary)
    first = np.zeros((vocabulary, TOPICS), np.int64)
    np.add.at(first, (sampler.word, sampler.topic), 1)
    push_changes(table, first)
    for _ in range(clocks):
        words = table.pull(everything)
        before = words.copy()
        sampler.sweep(words, words.sum(0), vocabulary)
        push_changes(table, words - before)
    part = servers.table("likelihood", (2,), dtype=np.float64)
    part.push(np.array([log_likelihood(np.zeros((1, TOPICS), np.int64), sampler.of_documents), 0]))
    part.clock()
    documents = part.pull()[0]
    words, read = table.pull(everything, info=True)
    while read.staleness:  # all have ended their last clocks, of which a shard hears a little later
        words, read = table.pull(everything, info=True)
    assert words.sum() == counts.sum()
    return documents + log_likelihood(words, np.zeros((1, TOPICS), np.int64))


def push_changes(table: object, changes: np.ndarray) -> None:
    rows = np.flatnonzero(changes.any(1))
    table.push(rows, changes[rows])  # type: ignore[attr-defined]
    table.clock()  # type: ignore[attr-defined]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clocks", type=int, default=60)
    parser.add_argument("--documents", type=int, default=100)
    options = parser.parse_args()
    counts = corpus(options.documents)
    with connect() as servers:
        ours = train(servers, counts, options.clocks)
        if servers.rank:
            return
        import lda

        logging.getLogger("lda").setLevel(logging.WARNING)
        model = lda.LDA(n_topics=TOPICS, n_iter=options.clocks, alpha=ALPHA, eta=ETA, random_state=1).fit(counts)
        theirs = model.loglikelihood()
        assert np.isclose(theirs, log_likelihood(model.nzw_.T, model.ndz_))  # by our formula
        print(f"log-likelihood {ours:.0f}, lda's own {theirs:.0f} after {options.clocks} iterations")
        assert ours >= 1.03 * theirs  # both are negative


if __name__ == "__main__":
    main()
