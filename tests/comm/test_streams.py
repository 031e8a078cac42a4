"""Several connections between two ranks: they are made, they carry their share, and results stay right."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.comm.processes import Job
from tests.comm.test_wiring import assert_failed, assert_wired, pester, some_ports, wait_until
from tests.comm.world import World, socket_pair
from unisono._native import Executor

from unisono.comm.communicator import Communicator

STRIPE = 64 << 10


def wired(job: Job) -> list[dict[str, Any]]:
    reports = job.reports()
    assert_wired(reports)
    return reports


@pytest.mark.parametrize("streams", [1, 3, 16])
def test_every_pair_has_as_many_connections_as_it_was_told(streams: int) -> None:
    with Job(3, UNISONO_LINKS="tcp", UNISONO_STREAMS=str(streams)).start_all() as job:
        reports = wired(job)
    for rank, report in enumerate(reports):
        assert report["streams"] == {str(peer): streams for peer in range(3) if peer != rank}


def test_the_lower_of_two_numbers_counts() -> None:
    with Job(3, UNISONO_LINKS="tcp") as job:
        job.start(0, UNISONO_STREAMS="4")
        job.start(1, UNISONO_STREAMS="2")
        job.start(2)
        reports = wired(job)
    assert [x["streams"] for x in reports] == [{"1": 2, "2": 4}, {"0": 2, "2": 2}, {"0": 4, "1": 2}]


def test_one_connection_is_enough_on_a_host_and_two_are_made_between_hosts() -> None:
    with Job(3, UNISONO_LINKS="tcp") as job:
        for rank, host in enumerate("aab"):
            job.start(rank, UNISONO_HOST=host)
        reports = wired(job)
    assert [x["streams"] for x in reports] == [{"1": 1, "2": 2}, {"0": 1, "2": 2}, {"0": 2, "1": 2}]


def test_a_link_whose_second_stream_fails_is_made_anew() -> None:
    with Job(2, UNISONO_LINKS="tcp", UNISONO_STREAMS="3") as job:
        job.start(0)
        job.start(1, "lose-stream=1")
        reports = wired(job)
    assert [x["streams"] for x in reports] == [{"1": 3}, {"0": 3}]


def test_strangers_do_not_disturb_the_streams() -> None:
    ports = some_ports(12)
    stop, sent = threading.Event(), dict[str, int]()
    with Job(3, UNISONO_LINKS="tcp", UNISONO_STREAMS="3", UNISONO_PORTS=f"{ports[0]}-{ports[-1]}") as job:
        doors = [("127.0.0.1", job.port), *(("127.0.0.1", port) for port in ports)]
        stranger = threading.Thread(target=pester, args=(doors, stop, sent, 0))
        stranger.start()
        try:
            for rank in range(2):
                job.start(rank)
            wait_until(lambda: sent.get("data", 0) > 10)  # those stay open for a while and say nothing more
            job.start(2)
            reports = wired(job)
        finally:
            stop.set()
            stranger.join()
    assert all(set(x["streams"].values()) == {3} for x in reports)


def test_a_rank_that_cannot_be_reached_fails_the_same_with_several_streams() -> None:
    with Job(3, UNISONO_LINKS="tcp", UNISONO_STREAMS="2") as job:
        job.start(0)
        job.start(1, "wrong-port")
        job.start(2)
        assert_failed(job.reports(), "ConfigError", "127.0.0.1:1: Connection refused", "   2 - x .")


@pytest.mark.parametrize("streams", [1, 3])
@pytest.mark.parametrize("elements", [0, 1, 1000, 3 * STRIPE + 5])
@pytest.mark.parametrize("links", ["tcp", "mixed"])
def test_results_do_not_depend_on_the_number_of_streams(links: str, elements: int, streams: int) -> None:
    p = 4
    inputs = [np.random.default_rng(rank).integers(-1000, 1000, elements) for rank in range(p)]

    def calls(comm: Communicator) -> list[Any]:
        x = inputs[comm.rank]
        results = [comm.allreduce(x, algorithm=algorithm) for algorithm in ("ring", "mst", "flat")]
        return [*results, comm.allgather(x), comm.broadcast(x.copy(), root=p - 1)]

    with World(p, links, streams=streams) as world:
        for sums in world.run(calls):
            for result in sums[:3]:
                np.testing.assert_array_equal(result, np.sum(inputs, axis=0))
            np.testing.assert_array_equal(sums[3], np.stack(inputs))
            np.testing.assert_array_equal(sums[4], inputs[-1])


def test_small_calls_of_odd_sizes_cross_the_ends_of_stripes() -> None:
    def calls(comm: Communicator) -> bool:
        total = comm.size * (comm.size - 1) // 2
        return all(
            np.all(comm.allreduce(np.full(1 + n % 997, comm.rank + n, np.int16)) == total + comm.size * n)
            for n in range(700)
        )

    with World(2, "tcp", streams=3) as world:
        assert world.run(calls) == [True, True]


def received(sock: socket.socket) -> int:
    """Bytes that came over a connection so far: tcpi_bytes_received of linux/tcp.h."""
    return int(struct.unpack_from("Q", sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256), 128)[0])


def test_every_stream_carries_its_share() -> None:
    pairs = [socket_pair() for _ in range(3)]
    watched = [other.dup() for _, other in pairs]
    ends = [[pair[end].detach() for pair in pairs] for end in range(2)]
    executors = [
        Executor(rank, 2, None, [], [(1 - rank, descriptor) for descriptor in ends[rank]], [], ranks_on_machine=2)
        for rank in range(2)
    ]
    ranks = [Communicator(executor, rank=rank, size=2, deadline=20) for rank, executor in enumerate(executors)]
    volume = 30 * STRIPE
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda comm: comm.broadcast(np.full(volume, comm.rank, np.uint8)), ranks))
    shares = [received(sock) for sock in watched]
    for comm in ranks:
        comm.close()
    for sock in watched:
        sock.close()
    assert sum(shares) >= volume
    assert max(shares) - min(shares) <= STRIPE, shares


def test_a_peer_that_dies_is_noticed_on_any_stream() -> None:
    with World(2, "tcp", streams=3) as world:
        world.ranks[1].close()
        with pytest.raises(Exception, match="rank 0 lost rank 1") as caught:
            world.ranks[0].allreduce(np.ones(10 * STRIPE))
    assert type(caught.value).__name__ == "PeerLost"


SCRIPT = """
import os, pathlib, unisono

comm = unisono.init()
assert comm.allreduce([1.0] * 100_000) == [2.0] * 100_000
lines = [line.split() for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]]
connected = {f"socket:[{line[9]}]" for line in lines if line[3] == "01"}
descriptors = [os.path.realpath(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd")]
print("sockets:", sum(pathlib.Path(x).name in connected for x in descriptors))
comm.barrier()  # before one closes what the other still has to count
comm.close()
"""


def test_a_job_has_a_connection_for_control_and_its_streams(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(SCRIPT)
    run = subprocess.run(
        [Path(sys.executable).parent / "unisono", "run", "-n", "2", tmp_path / "job.py"],
        env=os.environ | {"UNISONO_LINKS": "tcp", "UNISONO_STREAMS": "5"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.count("sockets: 6") == 2, run.stdout
