"""Loss against time and against updates, with stragglers: bsp, ssp, essp, asynchronous and one worker.

    unisono run -n 4 --servers 2 examples/server/stragglers.py --out stragglers.png

Softmax regression on scikit-learn's digits. A worker computes 20 ms in a clock; in each clock one that is drawn at
random needs 80. A barrier waits for it every time; with a bound of 3 clocks the delays even out. Where the slow worker
is always the same (--permanent), everybody ends up waiting for it: ssp lets the others be so many of its clocks ahead
of it once, and gains nothing more.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from pace import Pace
from sklearn.datasets import load_digits

from unisono.server import Consistency, ParameterServers, asynchronous, bsp, connect, essp, ssp

LINES: dict[str, Consistency] = {
    "bsp": bsp,
    "ssp(1)": ssp(1),
    "ssp(3)": ssp(3),
    "essp(3)": essp(3),
    "asynchronous": asynchronous,
}
RATE = 0.006


def digits() -> tuple[np.ndarray, np.ndarray]:
    data = load_digits()
    return np.c_[data.data / 16, np.ones(len(data.data))].astype(np.float32), data.target


def loss_and_gradient(w: np.ndarray, x: np.ndarray, y: np.ndarray) -> tuple[float, np.ndarray]:
    scores = x @ w
    p = np.exp(scores - scores.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    loss = -np.log(p[np.arange(len(y)), y] + 1e-9).mean()
    p[np.arange(len(y)), y] -= 1
    return float(loss), x.T @ p


def counted(gradient: np.ndarray) -> np.ndarray:
    """With a last row to which each update adds 1: a read says how many of them are in it, whoever made them."""
    return np.vstack([gradient, np.full(gradient.shape[1], -1 / RATE, gradient.dtype)])


def train(servers: ParameterServers, name: str, line: Consistency, clocks: int, pace: Pace, workers: int) -> np.ndarray:
    """What this worker read: seconds, updates of all workers, loss on all digits."""
    x, y = digits()
    table = servers.table(name, (x.shape[1] + 1, 10), update="sgd", lr=RATE, consistency=line)
    meet = servers.counters(f"{name} begins")
    meet.clock()
    meet.pull()  # all begin together
    seen, begin = [], time.monotonic()
    random = np.random.default_rng([servers.rank, 1])
    if servers.rank < workers:
        for clock in range(clocks):
            w = table.pull()
            seen.append((time.monotonic() - begin, w))
            batch = random.integers(0, len(x), 64)
            pace.compute(clock)
            table.push(counted(loss_and_gradient(w[:-1], x[batch], y[batch])[1]))
            table.clock()
    if servers.rank == 0 and workers > 1:
        print(table.report())
    meet.clock()
    meet.pull()
    return np.array([(at, round(w[-1, 0]), loss_and_gradient(w[:-1], x, y)[0]) for at, w in seen])


def curves(servers: ParameterServers, clocks: int, seconds: float, permanent: bool) -> dict[str, np.ndarray]:
    """Of each line, as worker 0 saw it."""
    pace = Pace(servers.rank, servers.size, seconds=seconds, permanent=permanent)
    result = {name: train(servers, name, line, clocks, pace, servers.size) for name, line in LINES.items()}
    alone = Pace(0, 1, seconds=seconds, slower=1)
    return result | {"one worker": train(servers, "one worker", asynchronous, clocks, alone, 1)}


def seconds_to(curve: np.ndarray, target: float) -> float:
    reached = np.flatnonzero(curve[:, 2] <= target)
    return float(curve[reached[0], 0]) if len(reached) else float("inf")


def plot(curves: dict[str, np.ndarray], path: str, title: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(11, 4.2), layout="constrained", sharey=True)
    for name, curve in curves.items():
        axes[0].plot(curve[:, 0], curve[:, 2], label=name)
        axes[1].plot(curve[:, 1], curve[:, 2], label=name)
    axes[0].set(xlabel="seconds", ylabel="loss on all digits", title=title, yscale="log")
    axes[1].set(xlabel="updates of all workers that were in the read")
    axes[1].legend()
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clocks", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=0.02)
    parser.add_argument("--target", type=float, default=0.35)
    parser.add_argument("--permanent", action="store_true")
    parser.add_argument("--out")
    options = parser.parse_args()
    with connect() as servers:
        found = curves(servers, options.clocks, options.seconds, options.permanent)
        if servers.rank:
            return
        times = {name: seconds_to(curve, options.target) for name, curve in found.items()}
        for name, seconds in times.items():
            target = f"loss {options.target} after {seconds:.2f} s, {times['bsp'] / seconds:.2f} × bsp"
            print(f"{name:>13}: {target}; the last read after {found[name][-1, 0]:.2f} s")
        if options.out:
            kind = "always the same straggler" if options.permanent else "one straggler in each clock"
            plot(found, options.out, f"{servers.size} workers, {kind}")
        if options.permanent:
            require_no_gain(found, slow=Pace(0, 1, seconds=options.seconds).slow)
        else:
            gain = times["bsp"] / times["ssp(3)"]
            assert gain >= 1.5, f"ssp(3) is only {gain:.2f} × sooner"


def require_no_gain(found: dict[str, np.ndarray], slow: float) -> None:
    """Who may be s clocks ahead of the straggler is through by so many of its clocks sooner, however many there are."""
    through = {name: curve[-1, 0] for name, curve in found.items()}
    for name, line in LINES.items():
        if line.clocked:
            ahead = line.bound * slow
            assert through[name] + ahead >= 0.95 * through["bsp"], f"{name} cannot be through in {through[name]:.2f} s"


if __name__ == "__main__":
    main()
