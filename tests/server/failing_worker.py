"""Workers and servers that end in the middle of a job, in one way each."""

import os
import signal
import socket
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from unisono.errors import DeadlineExceeded, MismatchError, PeerLost
from unisono.server import ParameterServers, asynchronous, bsp, connect, ssp

SHAPE = (100_000,)


def kill_worker(servers: ParameterServers, consistency: str) -> None:
    """Rank 1 dies at its fifth clock; the others go on to the end, and have not waited long."""
    table = servers.table("w", SHAPE, consistency={"bsp": bsp, "ssp": ssp(2)}[consistency])
    for clock in range(20):
        if servers.rank == 1 and clock == 5:
            table.push(np.ones(SHAPE))
            os.kill(os.getpid(), signal.SIGKILL)
        table.push(np.ones(SHAPE))
        table.clock()
        begin = time.monotonic()
        table.pull()
        assert time.monotonic() - begin < 10
    while len(servers.status()["members"]) > 1 and servers.rank == 0:
        time.sleep(0.02)
    if servers.rank == 0:
        values = table.pull(info=True)[0]
        assert (values == 20 * (servers.size - 1) + 5).all(), values[:3]
        print("went on", flush=True)


def kill_server(servers: ParameterServers, which: str) -> None:
    """All workers hear of it, those that wait for a worker, too."""
    table = servers.table("w", SHAPE, consistency=bsp)
    table.clock()
    if servers.rank == 0:
        table.pull()
        os.kill(server_pids()[int(which)], signal.SIGKILL)

    def work() -> None:
        for _ in range(1000):
            table.push(np.ones(SHAPE))
            table.clock()
            table.pull()

    with pytest.raises(PeerLost, match="server") as heard:
        work()
    print(f"heard: {heard.value}", flush=True)
    with pytest.raises(PeerLost):
        servers.status()
    print("and again", flush=True)
    sys.exit(7)


def deadline(servers: ParameterServers, _: str) -> None:
    """Rank 1 does not come to its clock."""
    table = servers.table("slow one", SHAPE, consistency=bsp)
    table.clock()
    table.pull()
    if servers.rank == 1:
        time.sleep(3)
        table.clock()
        table.pull()
        return
    table.push(np.ones(SHAPE))
    table.clock()
    out = np.zeros(SHAPE, np.float32)
    says = "waited 0.5 s in pull of table 'slow one'; the slowest: worker 1 at clock 1"
    with pytest.raises(DeadlineExceeded, match=says):
        table.pull(out, deadline=0.5)
    assert (table.pull() == servers.size - 1).all()
    assert (out == 0).all()
    print("named", flush=True)


def breaks(servers: ParameterServers, kind: str) -> None:
    """Connections break again and again; every push counts once."""
    consistency = {"bsp": bsp, "asynchronous": asynchronous}[kind]
    table = servers.table("w", SHAPE, dtype=np.int64, consistency=consistency)
    random = np.random.default_rng(servers.rank)
    for _ in range(30):
        if random.integers(0, 3) == 0:
            for connection in own_connections():
                with connection:
                    connection.shutdown(random.integers(0, 3))
        table.push(np.ones(SHAPE))
        table.clock()
    done = Path(sys.argv[3]) / f"done-{servers.rank}"
    done.touch()
    while len(list(done.parent.glob("done-*"))) < servers.size:
        time.sleep(0.01)
    assert (table.pull() == 30 * servers.size).all(), table.pull()
    print("exact", flush=True)


def mismatch(servers: ParameterServers, _: str) -> None:
    """Who describes a table otherwise is told so."""
    meet = servers.counters("meet")
    if servers.rank:
        meet.clock()
        meet.pull()
    if servers.rank == 0:
        servers.table("w", 10)
        servers.table("given", 3, init=np.zeros(3))
        meet.clock()
        meet.pull()
    else:
        with pytest.raises(MismatchError, match="describes table 'w' otherwise"):
            servers.table("w", 11)
        with pytest.raises(MismatchError, match="describes table 'given' otherwise"):
            servers.table("given", 3, init=np.ones(3))
        print("told", flush=True)


def fenced(servers: ParameterServers, _: str) -> None:
    """Rank 1 is cut off for longer than the others wait, and told so when it is back."""
    table = servers.table("w", SHAPE, dtype=np.int64, consistency=bsp)
    table.push(np.ones(SHAPE))
    table.clock()
    table.pull()
    if servers.rank == 1:
        for connection in own_connections():
            with connection:
                connection.shutdown(socket.SHUT_RDWR)
        time.sleep(1)
        with pytest.raises(PeerLost, match="has been given up"):
            table.clock()
        print("told", flush=True)
        return
    table.push(np.ones(SHAPE))
    table.clock()
    assert (table.pull() == servers.size + servers.size - 1).all()


def join(servers: ParameterServers, _: str) -> None:
    """Somebody joins whom nobody expected, begins where the slowest is, and is waited for until it leaves."""
    table = servers.table("w", SHAPE, dtype=np.int64, consistency=bsp)
    for _ in range(4 if servers.rank == 0 else 5):
        table.push(np.ones(SHAPE))
        table.clock()
        table.pull()
    if servers.rank:
        table.push(np.zeros(SHAPE))
        table.clock()
        return
    with connect(rank=servers.size, size=servers.size + 1, deadline=20) as late:
        other = late.table("w", SHAPE, dtype=np.int64, consistency=bsp)
        assert other.now == 4
        table.push(np.ones(SHAPE))
        table.clock()
        with pytest.raises(DeadlineExceeded, match=f"worker {servers.size} at clock 4"):
            table.pull(deadline=0.5)
        other.push(np.full(SHAPE, 100))
        other.clock()
        assert (table.pull() == 5 * servers.size + 100).all()
    table.clock()
    table.pull()  # without waiting for who has left
    print("joined", flush=True)


def idle(servers: ParameterServers, _: str) -> None:
    """Servers that have nothing to do, do nothing."""
    table = servers.table("w", SHAPE, consistency=bsp)
    table.clock()
    table.pull()
    if servers.rank:
        time.sleep(1.5)
        table.clock()
        return
    table.clock()
    pending = table.pull_async()  # waits for the others
    time.sleep(0.2)

    def used() -> float:
        stats = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in server_pids()]
        return sum(int(x[11]) + int(x[12]) for x in stats) / os.sysconf("SC_CLK_TCK")

    before = used()
    time.sleep(1)
    assert used() - before <= 0.02
    pending.wait()
    print("idle", flush=True)


def server_pids() -> list[int]:
    pids = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            environment = dict(x.partition(b"=")[::2] for x in (path / "environ").read_bytes().split(b"\0"))
            if (
                environment.get(b"UNISONO_JOB") == os.environ["UNISONO_JOB"].encode()
                and b"UNISONO_SERVER" in environment
            ):
                pids[int(environment[b"UNISONO_SERVER"])] = int(path.name)
        except OSError:
            continue
    return [pids[number] for number in sorted(pids)]


def own_connections() -> list[socket.socket]:
    """Of this process to servers, as copies."""
    ports = {int(address.rpartition(":")[2]) for address in os.environ["UNISONO_SERVERS"].split(",")}
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            sock = socket.socket(fileno=os.dup(int(name)))
        except OSError:
            continue
        try:
            ours = sock.family == socket.AF_INET and sock.getpeername()[1] in ports
        except OSError:  # it is broken already
            ours = False
        if ours:
            found.append(sock)
        else:
            sock.close()
    return found


if __name__ == "__main__":
    with connect(deadline=40) as connected:
        globals()[sys.argv[1]](connected, sys.argv[2])
