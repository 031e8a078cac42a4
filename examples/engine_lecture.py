"""The lecture's program, A = 2; B = A + 1; D = A · B: written in order, run as far as the data allows.

python examples/engine_lecture.py

Then the same with an allreduce in the middle, on two ranks: unisono run -n 2 examples/engine_lecture.py
"""

from __future__ import annotations

import numpy as np

import unisono


def main() -> None:
    a, b, c, d = (np.zeros(1) for _ in range(4))

    with unisono.init() as comm, unisono.Engine(threads=4) as engine:
        A, B, C, D = (engine.tag(data, name) for data, name in ((a, "A"), (b, "B"), (c, "C"), (d, "D")))

        engine.push(lambda: np.copyto(a, 2), mutate=[A])
        engine.push(lambda: np.add(a, 1, out=b), read=[A], mutate=[B])
        engine.push(lambda: np.multiply(a, b, out=d), read=[A, B], mutate=[D])
        engine.wait(D)
        print(f"rank {comm.rank}: D = A · B = {d[0]:g}", flush=True)

        # The sum of all ranks' B takes the place of B. Nothing waits for it but D.
        engine.push(lambda: np.copyto(a, 2), mutate=[A])
        engine.push(lambda: np.add(a, comm.rank + 1, out=b), read=[A], mutate=[B])
        comm.allreduce_async(b, out=c, engine=engine, read=[B], mutate=[C])
        engine.push(lambda: np.multiply(a, c, out=d), read=[A, C], mutate=[D])
        engine.wait(D)
        print(f"rank {comm.rank}: D = A · (sum of B over {comm.size} ranks) = {d[0]:g}", flush=True)


if __name__ == "__main__":
    main()
