"""The parameter server beside a bare socket, in one run.

    python benchmarks/server.py            # everything but peers, about a minute
    python benchmarks/server.py dense      # one of dense, sparse, latency, all over TCP
    python benchmarks/server.py dense sparse latency torch=/its/python torch-tcp=/its/python ray=/its/python

- dense: push_pull of 64 MB, 2 workers, 2 servers, TCP: bytes that the workers' sockets have sent and received, as the
  kernel counts them (TCP_INFO), per second, beside those of one bare stream with 64 MB buffers. Measured in turns.
- sparse: row updates per second and server core: 16 floats, batches of 10,000 keys, 10⁶ rows.
- latency: a pull of 64 bytes (asynchronous, so the request reaches the server) beside a blocking TCP ping-pong.
- ray, torch, torch-tcp: one worker and one server beside a Ray actor and torch RPC; give interpreters that have these.
  torch-tcp is not judged: the bar is for all as they come on one host.

It fails if a bar is missed.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np

MEGABYTE = 1 << 20
ROUNDS = 7
OF_A_STREAM, MILLIONS, OF_A_PING_PONG, OF_PEERS, OF_PEERS_AT_64_MB = 0.6, 2.0, 1.5, 5.0, 1.0
BYTES_OF_TCP_INFO = slice(120, 136)  # acknowledged, received: of struct tcp_info


def bar(what: str, found: float, limit: float, unit: str, *, at_least: bool = True) -> bool:
    held = found >= limit if at_least else found <= limit
    print(f"{'ok  ' if held else 'MISS'} {what}: {found:.3g}{unit}, bar {'≥' if at_least else '≤'} {limit:g}{unit}")
    return held


def receive_exactly(sock: socket.socket, view: memoryview) -> None:
    while len(view):
        view = view[sock.recv_into(view) :]


def tcp_pair() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ours = socket.create_connection(listener.getsockname())
        theirs, _ = listener.accept()
    for sock in (ours, theirs):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return ours, theirs


def bare_stream(total: int = 1024 * MEGABYTE, size: int = 64 * MEGABYTE) -> float:
    """Bytes per second of one stream between two processes."""
    ours, theirs = tcp_pair()
    if (pid := os.fork()) == 0:
        buffer = memoryview(bytearray(size))
        for _ in range(total // size):
            receive_exactly(theirs, buffer)
        theirs.send(b"!")
        os._exit(0)
    data = bytes(size)
    begin = perf_counter()
    for _ in range(total // size):
        ours.sendall(data)
    ours.recv(1)
    seconds = perf_counter() - begin
    os.waitpid(pid, 0)
    return total / seconds


def ping_pong(size: int = 64, repeats: int = 10000) -> float:
    """Seconds for a message there and one back, blocking, between two processes."""
    ours, theirs = tcp_pair()
    if (pid := os.fork()) == 0:
        buffer = memoryview(bytearray(size))
        for _ in range(repeats):
            receive_exactly(theirs, buffer)
            theirs.sendall(buffer)
        os._exit(0)
    data, answer, times = bytes(size), memoryview(bytearray(size)), []
    for _ in range(repeats):
        begin = perf_counter()
        ours.sendall(data)
        receive_exactly(ours, answer)
        times.append(perf_counter() - begin)
    os.waitpid(pid, 0)
    return median(times)


def job(part: str, workers: int, servers: int, links: str = "tcp") -> list[str]:
    """The lines that this file prints as the workers of a job."""
    with tempfile.TemporaryDirectory() as directory:
        environment = os.environ | {"UNISONO_BENCHMARK": directory, "UNISONO_LINKS": links}
        command = [str(Path(sys.executable).with_name("unisono")), "run", "-n", str(workers), "--servers", str(servers)]
        subprocess.run([*command, __file__, f"worker-{part}"], env=environment, check=True, timeout=250)
        return [line for path in sorted(Path(directory).iterdir()) for line in path.read_text().splitlines()]


def tell(rank: int, *numbers: float) -> None:
    directory = os.environ["UNISONO_BENCHMARK"]
    (Path(directory) / f"{rank}").write_text(" ".join(map(str, numbers)))


def bytes_of_sockets() -> int:
    """That this process has sent to servers, or received from them, so far."""
    ports = {int(address.rpartition(":")[2]) for address in os.environ["UNISONO_SERVERS"].split(",")}
    total = 0
    for name in os.listdir("/proc/self/fd"):
        try:
            with socket.socket(fileno=os.dup(int(name))) as sock:
                if sock.family in (socket.AF_INET, socket.AF_INET6) and sock.getpeername()[1] in ports:
                    told = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, BYTES_OF_TCP_INFO.stop)
                    total += sum(struct.unpack("QQ", told[BYTES_OF_TCP_INFO]))
        except OSError:  # no socket, or none that is connected
            continue
    return total


def worker_dense() -> None:
    from unisono.server import asynchronous, connect

    with connect() as servers:
        table = servers.table("w", (16 * MEGABYTE,), consistency=asynchronous)
        gradient, out = np.ones(table.shape, np.float32), np.empty(table.shape, np.float32)
        meet = servers.counters("meet", 2)
        times, counts = [], []
        for _ in range(ROUNDS + 2):
            meet.clock()
            meet.pull()
            counts.append(bytes_of_sockets())
            begin = perf_counter()
            table.push_pull(gradient, out)
            meet.clock()
            meet.pull()  # all are through
            times.append(perf_counter() - begin)
        tell(servers.rank, median(times[2:]), (counts[-1] - counts[2]) / (ROUNDS - 1))


def worker_latency() -> None:
    from unisono.server import asynchronous, connect

    with connect() as servers:
        table = servers.table("w", (16,), consistency=asynchronous)
        out, times = np.empty(16, np.float32), []
        for _ in range(10000):
            begin = perf_counter()
            table.pull(out)
            times.append(perf_counter() - begin)
        tell(servers.rank, median(times))


def worker_sparse() -> None:
    from unisono.server import asynchronous, connect

    rows, batch, width = 1_000_000, 10_000, 16
    with connect() as servers:
        table = servers.table("e", width=width, update="sgd", lr=0.1, consistency=asynchronous)
        random = np.random.default_rng(servers.rank)
        values = np.ones((batch, width), np.float32)
        for first in range(0, rows, batch):
            table.push(np.arange(first, first + batch), values)
        batches = [random.integers(0, rows, batch) for _ in range(200)]
        before = cpu_of_server()
        begin = perf_counter()
        handles = []
        for keys in batches:
            handles.append(table.push_async(keys, values))
            if len(handles) > 4:
                handles.pop(0).wait()
        for handle in handles:
            handle.wait()
        seconds = perf_counter() - begin
        unique = sum(len(np.unique(keys)) for keys in batches)
        tell(servers.rank, unique / seconds, unique / (cpu_of_server() - before), len(batches) * batch / seconds)


def cpu_of_server() -> float:
    """Seconds of processor that the server has used: that of its process, whose parent is ours."""
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if b"unisono.server.serve" in (path / "cmdline").read_bytes():
                fields = (path / "stat").read_text().rpartition(")")[2].split()
                if int(fields[1]) == os.getppid():
                    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        except OSError:
            continue
    raise RuntimeError("there is no server")


def dense() -> list[bool]:
    ratios = []
    for _ in range(3):
        bare = bare_stream()
        times, counts = zip(*(map(float, line.split()) for line in job("dense", 2, 2)), strict=True)
        moved = sum(counts) / max(times)
        ratios.append(moved / bare)
        what = f"{sum(counts) / MEGABYTE:.1f} MiB through the workers' sockets each time"
        print(f"     dense push_pull, {what}: {moved / 1e9:.2f} GB/s; bare stream {bare / 1e9:.2f} GB/s")
    what = "dense push_pull of 64 MB, 2 workers, 2 servers, over a bare stream"
    return [bar(what, median(ratios), OF_A_STREAM, " ×")]


def sparse() -> list[bool]:
    wall, cpu, raw = map(float, job("sparse", 1, 1)[0].split())
    what = "updates of sparse rows of 16 floats, batches of 10,000 keys, 10⁶ rows"
    held = bar(what, wall / 1e6, MILLIONS, " M/s")
    print(f"     {cpu / 1e6:.2f} M per second of the server's processor; {raw / 1e6:.2f} M keys/s with repeated ones")
    return [held]


def latency() -> list[bool]:
    ratios = []
    for _ in range(3):
        bare = ping_pong()
        seconds = float(job("latency", 1, 1)[0])
        ratios.append(seconds / bare)
        print(f"     pull of 64 bytes: {seconds * 1e6:.1f} µs; blocking ping-pong {bare * 1e6:.1f} µs")
    return [bar("pull of 64 bytes, over a blocking ping-pong", median(ratios), OF_A_PING_PONG, " ×", at_least=False)]


def worker_peers() -> None:
    """Seconds of each of `NAMES`, as the peers measure them."""
    from reference.parameter_server_peers import KEYS, REPEATS, ROWS, SIZES, WIDTH, timed, timed_batches

    from unisono.server import asynchronous, connect

    with connect() as servers:
        result = []
        for name, nbytes in SIZES.items():
            table = servers.table(name, nbytes // 4, consistency=asynchronous)
            gradient, out = np.ones(nbytes // 4, np.float32), np.empty(nbytes // 4, np.float32)
            result.append(timed(lambda t=table, g=gradient, o=out: t.push_pull(g, o), REPEATS[name]))
        table = servers.table("rows", width=WIDTH, consistency=asynchronous)
        rows = np.ones((KEYS, WIDTH), np.float32)
        for first in range(0, ROWS, KEYS):
            table.push(np.arange(first, first + KEYS), rows)
        result.append(timed_batches(lambda keys: table.push(keys, rows)))
        tell(servers.rank, *result)


NAMES = ["4 KB", "64 KB", "1 MB", "64 MB", "rows"]


def seconds_of_peer(peer: str, python: str) -> list[float]:
    script = Path(__file__).parent / "reference" / "parameter_server_peers.py"
    run = subprocess.run([python, script, peer], capture_output=True, text=True, timeout=200)
    line = next((line for line in run.stdout.splitlines() if line.startswith("RESULT ")), "")
    if not line:
        raise SystemExit(f"{peer} did not run: {run.stderr[-2000:]}")
    seconds = json.loads(line.removeprefix("RESULT "))
    return [seconds[name] for name in NAMES]


def beside(peer: str, python: str) -> list[bool]:
    """In turns: who is told to use TCP is beside ours over TCP, the others beside ours as it comes."""
    rounds, held = [], []
    for _ in range(3):
        ours = [float(text) for text in job("peers", 1, 1, "tcp" if peer.endswith("tcp") else "auto")[0].split()]
        rounds.append(list(zip(ours, seconds_of_peer(peer, python), strict=True)))
    for name, *pairs in zip(NAMES, *rounds, strict=True):
        what = "push of 10,000 rows" if name == "rows" else f"push_pull of {name}"
        ours, theirs = (median(column) * 1e3 for column in zip(*pairs, strict=True))
        times = median(theirs / ours for ours, theirs in pairs)
        print(f"     {what}: {ours:.3f} ms; {peer} {theirs:.3f} ms: {times:.1f} ×")
        if not peer.endswith("tcp"):
            limit = OF_PEERS_AT_64_MB if name == "64 MB" else OF_PEERS
            held.append(bar(f"{what}, {peer}'s time over ours", times, limit, " ×"))
    return held


PARTS = {"dense": dense, "sparse": sparse, "latency": latency}
WORKERS = {"worker-dense": worker_dense, "worker-sparse": worker_sparse, "worker-latency": worker_latency}
WORKERS["worker-peers"] = worker_peers


def main(arguments: list[str]) -> bool:
    held = []
    for name in arguments or list(PARTS):
        held += beside(*name.split("=", 1)) if "=" in name else PARTS[name]()
    return all(held)


if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1] in WORKERS:
        WORKERS[sys.argv[1]]()
    else:
        sys.exit(0 if main(sys.argv[1:]) else 1)
