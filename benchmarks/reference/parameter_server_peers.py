"""A parameter server as a Ray actor, and one by torch.distributed.rpc, as their tutorials have them.

An interpreter that has the peer runs it: python parameter_server_peers.py ray | torch | torch-tcp. Prints seconds by
size, as JSON.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Callable
from statistics import median
from time import perf_counter

import numpy as np

SIZES = {"4 KB": 1 << 12, "64 KB": 1 << 16, "1 MB": 1 << 20, "64 MB": 64 << 20}
REPEATS = {"4 KB": 300, "64 KB": 300, "1 MB": 100, "64 MB": 7}
ROWS, WIDTH, KEYS, BATCHES = 1_000_000, 16, 10_000, 50
WARM_UP = 3


def timed(call: Callable[[], object], repeats: int) -> float:
    for _ in range(WARM_UP):
        call()
    times = []
    for _ in range(repeats):
        begin = perf_counter()
        call()
        times.append(perf_counter() - begin)
    return median(times)


def timed_batches(push: Callable[[np.ndarray], object]) -> float:
    """Every batch has other keys, as the steps of a training have; all contestants get the same ones."""
    random = np.random.default_rng(1)
    batches = iter([random.choice(ROWS, KEYS, replace=False) for _ in range(BATCHES + WARM_UP)])
    return timed(lambda: push(next(batches)), BATCHES)


def by_ray() -> dict[str, float]:
    import ray

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)

    @ray.remote
    class Server:
        def dense(self, elements: int) -> None:
            self.w = np.zeros(elements, np.float32)

        def sparse(self) -> None:
            self.rows = np.zeros((ROWS, WIDTH), np.float32)

        def push_pull(self, gradient: np.ndarray) -> np.ndarray:
            self.w += gradient
            return self.w

        def push(self, keys: np.ndarray, rows: np.ndarray) -> None:
            np.add.at(self.rows, keys, rows)

    server = Server.remote()
    result = {}
    for name, nbytes in SIZES.items():
        gradient = np.ones(nbytes // 4, np.float32)
        ray.get(server.dense.remote(len(gradient)))
        result[name] = timed(lambda g=gradient: ray.get(server.push_pull.remote(g)), REPEATS[name])
    ray.get(server.sparse.remote())
    rows = np.ones((KEYS, WIDTH), np.float32)
    result["rows"] = timed_batches(lambda keys: ray.get(server.push.remote(keys, rows)))
    ray.shutdown()
    return result


W: dict[str, object] = {}


def torch_push_pull(gradient):  # type: ignore[no-untyped-def]
    W["w"].add_(gradient)
    return W["w"]


def torch_make(elements):  # type: ignore[no-untyped-def]
    import torch

    W["w"] = torch.zeros(elements)
    if "rows" not in W:
        W["rows"] = torch.zeros(ROWS, WIDTH)


def torch_push(indices, rows):  # type: ignore[no-untyped-def]
    W["rows"].index_add_(0, indices, rows)


def by_torch(transports: list[str] | None = None) -> dict[str, float]:
    """As it comes, it uses shared memory on one host; uv is TCP."""
    import torch
    from torch.distributed import rpc

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    given = {"_transports": transports, "_channels": ["basic"]} if transports else {}
    options = rpc.TensorPipeRpcBackendOptions(**given)
    if (pid := os.fork()) == 0:
        rpc.init_rpc("server", rank=1, world_size=2, rpc_backend_options=options)
        rpc.shutdown()
        os._exit(0)
    rpc.init_rpc("worker", rank=0, world_size=2, rpc_backend_options=options)
    result = {}
    for name, nbytes in SIZES.items():
        gradient = torch.ones(nbytes // 4)
        rpc.rpc_sync("server", torch_make, args=(len(gradient),))
        result[name] = timed(lambda g=gradient: rpc.rpc_sync("server", torch_push_pull, args=(g,)), REPEATS[name])
    rows = torch.ones(KEYS, WIDTH)
    result["rows"] = timed_batches(lambda keys: rpc.rpc_sync("server", torch_push, args=(torch.from_numpy(keys), rows)))
    rpc.shutdown()
    os.waitpid(pid, 0)
    return result


PEERS = {"ray": by_ray, "torch": by_torch, "torch-tcp": lambda: by_torch(["uv"])}

if __name__ == "__main__":
    print("RESULT", json.dumps(PEERS[sys.argv[1]]()))
