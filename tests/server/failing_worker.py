"""Workers and servers that end in the middle of a job, in one way each."""

import os
import signal
import socket
import stat
import sys
import time
from pathlib import Path

import numpy as np
from raising import raises

from unisono.errors import ConfigError, DeadlineExceeded, MismatchError, PeerLost
from unisono.server import ParameterServers, asynchronous, bsp, connect, essp, ssp

SHAPE = (100_000,)


def tell(servers: ParameterServers, what: str) -> None:
    (Path(sys.argv[3]) / f"{what}-{servers.rank}").touch()


def wait_until_told(what: str, *ranks: int) -> None:
    """However long it takes, nothing happens before it."""
    until = time.monotonic() + 60
    while not all((Path(sys.argv[3]) / f"{what}-{rank}").exists() for rank in ranks):
        assert time.monotonic() < until, what
        time.sleep(0.01)


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
        right, until = 20 * (servers.size - 1) + 5, time.monotonic() + 30
        while (table.pull(info=True)[0] < right).any():  # a shard may hear of the last clocks a little later
            assert time.monotonic() < until
        values = table.pull(info=True)[0]
        assert (values == right).all(), values[:3]
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

    with raises(PeerLost, match="server") as heard:
        work()
    print(f"heard: {heard.value}", flush=True)
    with raises(PeerLost):
        servers.status()
    print("and again", flush=True)
    sys.exit(7)


def deadline(servers: ParameterServers, _: str) -> None:
    """Rank 1 does not come to its clock."""
    table = servers.table("it's slow", SHAPE, consistency=bsp)
    table.clock()
    table.pull()
    if servers.rank == 1:
        wait_until_told("late", 0, 2)
        time.sleep(6)  # they wait for more than a second of it
        table.clock()
        table.pull()
        return
    table.push(np.ones(SHAPE))
    table.clock()
    tell(servers, "clock")
    wait_until_told("clock", 0, 2)
    out = np.zeros(SHAPE, np.float32)
    says = "waited 0.5 s in pull of table 'it's slow'; the slowest: worker 1 at clock 1"
    with raises(DeadlineExceeded, match=says):
        table.pull(out, deadline=0.5)
    tell(servers, "late")
    assert (table.pull() == servers.size - 1).all()
    assert (out == 0).all()
    assert table.reads.waited[1] > 1e9
    assert "s for worker 1" in servers.report()
    assert any(who == servers.rank and whom == 1 and time > 1 for who, whom, time in servers.status()["waits"])
    print("named", flush=True)


def stopped(servers: ParameterServers, _: str) -> None:
    """A server that does not answer is what is awaited, and no worker."""
    table = servers.table("w", SHAPE, consistency=asynchronous)
    clocked = servers.table("c", SHAPE, consistency=bsp)
    pid = server_pids()[1]
    hold(pid)
    try:
        for call in (lambda: table.push(np.ones(SHAPE), deadline=4), lambda: table.pull(deadline=4)):
            with raises(DeadlineExceeded, match=r"of table 'w'; server 1 does not answer$"):
                call()
        with raises(DeadlineExceeded, match=r"in snapshot; server 1 has not done its part$"):
            servers.snapshot(sys.argv[3], deadline=4)
        clocked.push(np.ones(SHAPE))
        with raises(DeadlineExceeded, match=r"clock of table 'c'; server 1 does not answer$"):
            clocked.clock(deadline=4)
    finally:
        os.kill(pid, signal.SIGCONT)
    clocked.clock()
    assert (clocked.pull() == 1).all()
    assert (table.pull() == 1).all()
    first = server_pids()[0]
    hold(first)
    try:
        with raises(DeadlineExceeded, match=r"waited 0.3 s in status; server 0 does not answer$"):
            servers.status(deadline=0.3)
    finally:
        os.kill(first, signal.SIGCONT)
    servers.status()
    print("named", flush=True)


def late(servers: ParameterServers, _: str) -> None:
    """A server that answers again by the time that it is asked why was awaited all the same."""
    table = servers.table("w", SHAPE, consistency=asynchronous)
    pid = server_pids()[1]
    waiting = servers._waiting
    explain = waiting._awaited

    class Awaited:
        """It goes on once it is known to be late."""

        def __getattr__(self, name: str) -> object:
            return getattr(servers._worker, name)

        def awaited(self, asked: object) -> list[int]:
            shards = servers._worker.awaited(asked)
            os.kill(pid, signal.SIGCONT)
            return shards

    def explain_later(asked: object, what: str) -> str:
        waiting._worker = Awaited()
        return explain(asked, what)

    waiting._awaited = explain_later
    hold(pid)
    with raises(DeadlineExceeded, match=r"in pull of table 'w'; .*server 1 was late$"):
        table.pull(deadline=0.3)
    print("named", flush=True)


def behind(servers: ParameterServers, _: str) -> None:
    """An asynchronous table says by how much the slowest is behind; the reader has all of its own."""
    table = servers.table("w", SHAPE, dtype=np.int64, consistency=asynchronous)
    meet = servers.counters("meet")

    def meet_all() -> None:
        meet.clock()
        meet.pull()

    def advance(clocks: int) -> None:
        for _ in range(clocks):
            table.push(np.ones(SHAPE))
            table.clock()

    if servers.rank == 0:
        advance(4)
        read = table.pull(info=True)[1]
        assert (read.clock, read.staleness, read.missing, read.extra) == (4, 4, 4 * (servers.size - 1), 0), read
    meet_all()
    if servers.rank:
        advance(6)
    meet_all()
    if servers.rank == 0:
        values, read = table.pull(info=True)
        assert (values == 4 + 6 * (servers.size - 1)).all()
        until = time.monotonic() + 30
        while read.staleness or read.extra < 2 * (servers.size - 1):  # shards hear of clocks a little later
            assert time.monotonic() < until, read
            read = table.pull(info=True)[1]
        assert (read.clock, read.missing, read.extra) == (4, 0, 2 * (servers.size - 1)), read
        assert table.reads.worst == 4
        assert "max observed 4, without a bound" in table.report()
        print("known", flush=True)
    meet_all()


def waits_again(servers: ParameterServers, _: str) -> None:
    """Who waits again for what a deadline has ended gets it, and nothing else."""
    table = servers.table("w", 8, init=5.0)
    table.push(np.ones(8))
    if servers.rank:
        wait_until_told("late", 0)
        table.clock()
        table.clock()
        return
    table.clock()
    out = np.full(8, -77, np.float32)
    handle = table.pull_async(out)
    for wait in (lambda: handle.wait(0.2), lambda: table.clock(deadline=0.2)):
        with raises(DeadlineExceeded, match="worker 1 at clock 0"):
            wait()
        assert not handle.done
    tell(servers, "late")
    assert handle.wait() is out
    assert handle.done
    assert (out == 5 + servers.size).all()
    assert (handle.wait() == 5 + servers.size).all()
    print("again", flush=True)


def stands_still(servers: ParameterServers, _: str) -> None:
    """A push that is larger than what is on its way, to a server that stands still for a while; and a connection that
    breaks meanwhile."""
    values = np.ones(4_000_000, np.float32)
    table = servers.table("big", values.shape, consistency=asynchronous)
    (pid,) = server_pids()
    hold(pid)
    try:
        with raises(DeadlineExceeded, match="server 0 does not answer"):
            table.push(values, deadline=0.2)
        values[:] = 77  # it is ours again
        assert break_connections(socket.SHUT_RDWR)
        with raises(DeadlineExceeded, match="server 0 does not answer"):
            table.pull(deadline=1.5)
    finally:
        os.kill(pid, signal.SIGCONT)
    assert (table.pull() == 1).all()  # what was pushed is pushed
    print("goes on", flush=True)


def breaks(servers: ParameterServers, kind: str) -> None:
    """Connections break again and again; every push counts once."""
    consistency = {"bsp": bsp, "asynchronous": asynchronous, "ssp": ssp(2), "essp": essp(2)}[kind]
    assert set(servers.links) == {"tcp" if os.environ["UNISONO_LINKS"] == "tcp" else "shm"}
    table = servers.table("w", SHAPE, dtype=np.int64, consistency=consistency)
    rows = servers.table("e", width=2, dtype=np.int64, consistency=consistency)
    random, broken = np.random.default_rng(servers.rank), 0
    for _ in range(30):
        if random.integers(0, 3) == 0:
            broken += break_connections(random.integers(0, 3))
        table.push(np.ones(SHAPE))
        rows.push(np.arange(100), np.ones((100, 2)))
        table.clock()
        rows.clock()
    assert broken > 5
    done = Path(sys.argv[3]) / f"done-{servers.rank}"
    done.touch()
    while len(list(done.parent.glob("done-*"))) < servers.size:
        time.sleep(0.01)
    until = time.monotonic() + 30  # a shard may hear of the last clocks a little later
    while kind in ("ssp", "essp") and (table.pull(info=True)[0] < 30 * servers.size).any():
        assert time.monotonic() < until
    while kind in ("ssp", "essp") and (rows.pull(np.arange(100), info=True)[0] < 30 * servers.size).any():
        assert time.monotonic() < until
    assert (table.pull(info=True)[0] == 30 * servers.size).all(), table.pull()
    assert (rows.pull(np.arange(100), info=True)[0] == 30 * servers.size).all()
    print("exact", flush=True)


def renewed(servers: ParameterServers, kind: str) -> None:
    """Rows that were read over a connection that broke are not taken for fresh because of what the next one says."""
    bound, row, others = 2, [5], np.arange(1000, 1040)
    table = servers.table("w", width=1, dtype=np.int64, consistency={"ssp": ssp, "essp": essp}[kind](bound))
    meet = servers.counters("meet")
    if servers.rank == 0:
        table.pull(row)
        assert break_connections(socket.SHUT_RDWR)
        servers.status()
        table.pull(others)  # what a server tells the news of from now on
    for _ in range(8):
        if servers.rank == 1:
            table.push(row, [[1]])
        table.clock()
        meet.clock()
        meet.pull()
        time.sleep(0.02)  # eager pushes are on their way
        if servers.rank == 0:
            assert table.pull(row)[0, 0] >= table.now - bound, (table.now, table.pull(row))
    if servers.rank == 0:
        print("fresh", flush=True)


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
        with raises(MismatchError, match="describes table 'w' otherwise"):
            servers.table("w", 11)
        with raises(MismatchError, match="describes table 'given' otherwise"):
            servers.table("given", 3, init=np.ones(3))
        print("told", flush=True)


def fenced(servers: ParameterServers, _: str) -> None:
    """Rank 1 is cut off for longer than the others wait, and told so when it is back."""
    table = servers.table("w", SHAPE, dtype=np.int64, consistency=bsp)
    table.push(np.ones(SHAPE))
    table.clock()
    table.pull()
    if servers.rank == 1:
        break_connections(socket.SHUT_RDWR)
        wait_until_told("gone on", 0, 2)
        with raises(PeerLost, match="has been given up"):
            table.clock()
        print("told", flush=True)
        return
    table.push(np.ones(SHAPE))
    table.clock()
    assert (table.pull() == servers.size + servers.size - 1).all()
    tell(servers, "gone on")


def join(servers: ParameterServers, _: str) -> None:
    """Somebody joins whom nobody expected, begins where the slowest is, and is waited for until it leaves."""
    table = servers.table("w", SHAPE, dtype=np.int64, consistency=bsp)
    for clock in range(4 if servers.rank == 0 else 5):
        table.push(np.ones(SHAPE))
        table.clock()
        tell(servers, f"clock {clock}")
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
        wait_until_told("clock 4", *range(1, servers.size))
        with raises(DeadlineExceeded, match=f"worker {servers.size} at clock 4"):
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
        wait_until_told("seen", 0)
        table.clock()
        return
    table.clock()
    pending = table.pull_async()  # waits for the others
    time.sleep(1)

    def used() -> float:
        stats = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in server_pids()]
        return sum(int(x[11]) + int(x[12]) for x in stats) / os.sysconf("SC_CLK_TCK")

    before = used()
    time.sleep(1)
    spent = used() - before
    tell(servers, "seen")
    assert spent <= 0.1
    pending.wait()
    print("idle", flush=True)


def refused(servers: ParameterServers, why: str) -> None:
    """What one shard refuses no other keeps: another table of that name can be made."""
    if why == "quota":  # of 100,000 bytes
        servers.table("small", 15_000, consistency=asynchronous)  # on one of the shards
        with raises(ConfigError, match="more than this shard has room for"):
            servers.table("w", 25_000, consistency=asynchronous)  # 50,000 bytes on each
    else:
        with raises(ConfigError, match="not on server 1"):
            servers.table("w", 25_000, update="rule:Elsewhere", consistency=asynchronous)
    table = servers.table("w", 17_500, update="add", consistency=asynchronous)
    table.push(np.ones(17_500))
    assert (table.pull() == 1).all()
    print("made", flush=True)


def raced(servers: ParameterServers, _: str) -> None:
    """Workers describe a table differently at the same time. Whoever comes first where, one description is left or
    none, and all can make the table after it."""
    wins = servers.counters("wins", servers.size * 20)
    for i in range(20):
        won = np.zeros(servers.size * 20, np.int64)
        try:
            servers.table(f"race {i}", 20_000 + servers.rank, consistency=ssp(9))
            won[servers.size * i + servers.rank] = 1
        except MismatchError:
            pass
        wins.push(won)
        wins.clock()
        winners = np.flatnonzero(wins.pull()[servers.size * i : servers.size * (i + 1)])
        assert len(winners) <= 1
        if not won.any():
            servers.table(f"race {i}", 20_000 + int(winners.sum()), consistency=ssp(9)).clock()
    print("agreed", flush=True)


def hold(pid: int) -> None:
    """Returns when all of its threads stand still: the signal only asks them to."""
    os.kill(pid, signal.SIGSTOP)
    tasks = Path(f"/proc/{pid}/task")

    def stands() -> bool:
        return all((task / "stat").read_text().rpartition(")")[2].split()[0] == "T" for task in tasks.iterdir())

    until = time.monotonic() + 30
    while not stands():
        assert time.monotonic() < until, f"process {pid} goes on"
        time.sleep(0.01)


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


def break_connections(how: int) -> int:
    """All of them, in this way; how many these were."""
    connections = own_connections()
    for connection in connections:
        with connection:
            connection.shutdown(how)
    return len(connections)


def own_connections() -> list[socket.socket]:
    """Of this process to servers, as copies."""
    ports = {int(address.rpartition(":")[2]) for address in os.environ["UNISONO_SERVERS"].split(",")}
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            if not stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                continue
            sock = socket.socket(fileno=os.dup(int(name)))
        except OSError:  # it was that of the folder
            continue
        try:
            peer = sock.getpeername()
            ours = sock.family == socket.AF_INET and peer[1] in ports
            ours |= sock.family == socket.AF_UNIX and bytes(peer or b"").startswith(b"\0unisono-")
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
