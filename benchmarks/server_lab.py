"""What k parameter servers were predicted to cost, and what they cost, between the hosts of a lab. Needs root.

python benchmarks/server_lab.py [RATE [WORKERS]]

Each host has one process, and a link of that rate. The prediction has β from the goodput of one TCP stream between two
of the hosts, in the same lab, and α from a ping-pong there; nothing is fitted. A ring allreduce of the workers, run by
the same command, stands beside it.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np

import unisono
from unisono.interpret.machine import Link, Machine
from unisono.lab import Lab
from unisono.server import asynchronous, connect
from unisono.server.price import price_servers

MB = 1 << 20
NBYTES = 16 * MB
PORT = 5202


def stream(comm: unisono.Communicator) -> tuple[float, float]:
    """Seconds of half a ping-pong, and bytes per second, between the first two ranks."""
    result = np.zeros(2)
    with socket.create_server(("", PORT)) if comm.rank == 1 else socket.socket() as door:
        comm.barrier()
        if comm.rank == 0:
            with socket.create_connection((comm.hosts[1], PORT)) as sock:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                times = []
                for _ in range(200):
                    began = perf_counter()
                    sock.sendall(b"!")
                    sock.recv(1)
                    times.append(perf_counter() - began)
                began = perf_counter()
                sock.sendall(bytes(NBYTES))
                sock.recv(1)
                result[:] = median(times) / 2, NBYTES / (perf_counter() - began)
        elif comm.rank == 1:
            with door.accept()[0] as sock:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                for _ in range(200):
                    sock.sendall(sock.recv(1))
                left = NBYTES
                while left:
                    left -= len(sock.recv(min(left, MB)))
                sock.sendall(b"!")
    comm.broadcast(result, root=0)
    return float(result[0]), float(result[1])


def work(directory: str) -> None:
    comm = unisono.init()
    alpha, rate = stream(comm)
    gradient = np.ones(NBYTES // 4, np.float32)

    def slowest(call: object, rounds: int = 5) -> float:
        times = []
        for _ in range(rounds):
            comm.barrier()
            began = perf_counter()
            call()  # type: ignore[operator]
            times.append(float(comm.allreduce(np.array([perf_counter() - began]), op="max")[0]))
        return median(times)

    with connect() as servers:
        table = servers.table("w", gradient.shape, consistency=asynchronous)
        out = np.empty_like(gradient)
        streamed = slowest(lambda: table.push_pull(gradient, out))
        apart = slowest(lambda: (table.push(gradient), comm.barrier(), table.pull(out)))
    ring = slowest(lambda: comm.allreduce(gradient, out=out, algorithm="ring"))
    if comm.rank == 0:
        Path(directory, "result").write_text(f"{alpha} {rate} {streamed} {apart} {ring}")
    comm.close()


def main(rate: str, workers: int) -> None:
    print(f"push_pull of {NBYTES // MB} MiB, {workers} workers, links of {rate}: seconds, predicted / measured")
    for k in (1, 2, 4):
        with tempfile.TemporaryDirectory(dir="/var/tmp") as directory, Lab(workers + k, rate, name="servers"):
            command = [str(Path(sys.executable).with_name("unisono")), "lab", "run", "--name", "servers"]
            command += ["-n", str(workers), "--servers", str(k), __file__, "work", directory]
            subprocess.run(command, check=True, timeout=250, env=os.environ | {"UNISONO_LINKS": "tcp"})
            alpha, goodput, *measured = map(float, Path(directory, "result").read_text().split())
        predicted = price_servers(workers, k, NBYTES, Machine(Link(alpha, 1 / goodput)))
        pairs = zip(("push_pull", "push, then pull", "ring"), predicted[3:], measured, strict=True)
        text = "; ".join(f"{name} {said:.3f} / {was:.3f} ({was / said:.2f})" for name, said, was in pairs)
        print(f"  {k} servers: {text}", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["work"]:
        work(sys.argv[2])
    else:
        main(sys.argv[1] if sys.argv[1:] else "1gbit", int(sys.argv[2]) if sys.argv[2:] else 2)
