"""Hosts of a lab: what they share and what not, which links there are, and what passes through them."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.lab.labs import SECONDS, needs_lab, run_code

from unisono.interpret.price import price
from unisono.lab import Lab
from unisono.schedule.catalog import find

pytestmark = needs_lab


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Lab(hosts=4) as lab:
        yield lab


LINKS = """
import json, unisono
with unisono.init() as comm:
    print(json.dumps([comm.links, comm.hosts, comm.local_rank]))
"""


def test_hosts_are_linked_by_tcp_and_ranks_of_one_host_by_shared_memory(lab: Lab) -> None:
    hosts = [f"host{rank // 2}" for rank in range(8)]
    for rank, line in enumerate(run_code(lab, LINKS, ranks=8)):
        kinds = ["self" if peer == rank else "shm" if peer // 2 == rank // 2 else "tcp" for peer in range(8)]
        assert json.loads(line) == [kinds, hosts, rank % 2]


PLACE = """
import json, os, pathlib, socket, subprocess, unisono
comm = unisono.init()
for directory in ("/tmp", "/dev/shm"):
    pathlib.Path(directory, f"left-by-{comm.rank}").touch()
child = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
child.stdin.write(b"\\n")
child.stdout.readline()  # it has its name now, which it has not yet when Popen comes back
comm.barrier()
found = {
    "files": sorted(str(path) for name in ("/tmp", "/dev/shm") for path in pathlib.Path(name).glob("left-by-*")),
    "cats": sum(path.read_text() == "cat\\n" for path in pathlib.Path("/proc").glob("[0-9]*/comm")),
    "interfaces": sorted(os.listdir("/sys/class/net")),
    "address": socket.gethostbyname(socket.gethostname()),
    "directory": os.getcwd(),
}
comm.barrier()
child.kill()
child.wait()
print(json.dumps(found))
"""


def test_hosts_do_not_see_each_others_files_memory_and_processes(lab: Lab) -> None:
    for rank, line in enumerate(run_code(lab, PLACE, ranks=8)):
        ranks = (rank // 2 * 2, rank // 2 * 2 + 1)
        found = json.loads(line)
        assert found["files"] == sorted(f"{name}/left-by-{r}" for name in ("/tmp", "/dev/shm") for r in ranks)
        assert found["cats"] == 2
        assert found["interfaces"] == ["eth0", "lo"]
        assert found["address"] == lab.hosts[rank // 2].address
        assert found["directory"] == str(Path.cwd())
    assert not list(Path("/tmp").glob("left-by-*"))


REDUCE = """
import sys, numpy as np, unisono
with unisono.init() as comm:
    total = comm.allreduce(np.full(int(sys.argv[1]), comm.rank + 1.0), algorithm="ring")
    assert (total == comm.size * (comm.size + 1) / 2).all()
    print(sum(comm.stats()["sent"]))
"""


def test_the_interfaces_count_the_bytes_of_the_schedule_and_headers(lab: Lab) -> None:
    elements = 1_000_003
    schedule = find("allreduce", "ring").schedule(4)
    payload = price(schedule, elements * 8, layout=schedule.layout(elements * 8, 8)).sent
    before = lab.bytes_sent()
    sent = [int(line) for line in run_code(lab, REDUCE, elements, ranks=4)]
    counted = np.array(lab.bytes_sent()) - before
    assert sent == payload.tolist()
    assert (counted >= payload).all()
    assert (counted <= payload * 1.06 + 100_000).all()  # to meet and to be wired takes some 10 KB


CONGESTION = """
import socket, sys, unisono
with unisono.init() as comm, socket.socket() as mine:
    if comm.rank == 0:
        mine.bind(("host0", 5001))
        mine.listen()
        comm.barrier()
        other = mine.accept()[0]
    else:
        comm.barrier()
        other = mine
        other.connect(("host0", 5001))
    print(other.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\\0").decode())
    other.close()
"""


def test_connections_between_hosts_use_cubic_on_both_ends(lab: Lab) -> None:
    assert run_code(lab, CONGESTION, ranks=2) == ["cubic", "cubic"]


SEND = """
import time, numpy as np, unisono
with unisono.init() as comm:
    data, seconds = np.ones(20_000_000, np.uint8), []
    for sender in (0, 1):
        start = time.monotonic()
        comm.barrier()
        if comm.rank == sender:
            comm.send(data, 1 - sender)
        else:
            comm.recv(sender, out=data)
        comm.barrier()
        seconds.append(time.monotonic() - start)
    print(*seconds)
"""


def test_the_rate_of_a_host_holds_in_both_directions() -> None:
    with Lab(hosts=2, rates={"host1": "100mbit"}) as lab:
        for line in run_code(lab, SEND, ranks=2):
            assert all(float(seconds) >= 1.5 for seconds in line.split())


@pytest.mark.parametrize(("hosts", "ranks"), [(2, 5), (4, 4), (4, 8)])
def test_algorithms_types_and_operators_give_what_numpy_gives(lab: Lab, hosts: int, ranks: int) -> None:
    words = (sys.executable, "-m", "tests.lab.collectives", "1")
    if hosts == 4:
        done = lab.run(*words, ranks=ranks, timeout=SECONDS)
    else:
        with Lab(hosts=hosts) as smaller:
            done = smaller.run(*words, ranks=ranks, timeout=SECONDS)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == ranks
    assert len({line.partition(" all right, ")[2] for line in lines} - {""}) == 1, "the same cases on every rank"
    assert " 0 cases" not in lines[0]


HIERARCHY = """
import json, numpy as np, unisono
with unisono.init() as comm:
    x = np.full(3_000_000, comm.rank + 1.0, np.float32)
    before = np.array(comm.stats()["sent"])
    comm.allreduce(x, out=x)
    stats = comm.stats()
    assert (x == comm.size * (comm.size + 1) / 2).all()
    print(json.dumps([(np.array(stats["sent"]) - before).tolist(), list(stats["algorithms"])]))
"""


def test_with_two_ranks_per_host_only_the_hierarchys_share_passes_between_hosts(lab: Lab) -> None:
    nbytes, hosts, per_host = 3_000_000 * 4, 4, 2
    before = lab.bytes_sent()
    answers = [json.loads(line) for line in run_code(lab, HIERARCHY, ranks=hosts * per_host)]
    counted = np.array(lab.bytes_sent()) - before
    share = 2 * (hosts - 1) / hosts * nbytes  # of every host, and half of it of each of its ranks
    for rank, (sent, algorithms) in enumerate(answers):
        assert algorithms == ["allreduce hierarchical"]
        away = sum(count for peer, count in enumerate(sent) if peer // per_host != rank // per_host)
        assert away == share / per_host
    assert (counted >= share).all()
    assert (counted <= share * 1.06 + 100_000).all()
