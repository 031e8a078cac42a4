"""Ranks become linked: real processes, sockets and shared memory, good and bad days."""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from tests.comm.processes import KEY, PORTS_OF_A_WORKER, Job, first_port_of_worker, report_of

Report = dict[str, Any]


def assert_wired(reports: list[Report]) -> None:
    """Every pair has a link that works in both directions, and nothing is left open afterwards."""
    size = len(reports)
    for rank, report in enumerate(reports):
        assert "error" not in report, report["message"]
        peers = [peer for peer in range(size) if peer != rank]
        assert sorted(report["shared"] + report["tcp"]) == peers
        assert report["heard"] == {str(peer): f"{peer} to {rank}" for peer in peers}
        assert report["exchanged"] == [{"rank": other} for other in range(size)]
        assert report["control"] == (1 if rank else size - 1)
        assert report["inherited"] == []
        assert report["after"] == report["before"]
        for peer in report["shared"]:
            assert report["pids"][str(peer)] == reports[peer]["pid"]


def assert_failed(reports: list[Report], error: str, *words: str) -> None:
    for report in reports:
        assert report.get("error") == error, report.get("message", report)
        assert report["after"] == report["before"]
        for word in words:
            assert word in report["message"], report["message"]


def seconds_to_wire(reports: list[Report]) -> float:
    """From the moment that the last rank was there."""
    return float(max(x["wired"] for x in reports) - max(x["started"] for x in reports))


def some_ports(count: int) -> range:
    first = first_port_of_worker(21_000) + random.randrange(PORTS_OF_A_WORKER - count)
    return range(first, first + count)


def wait_until(condition: Any) -> Any:
    deadline = time.monotonic() + 60
    while not (result := condition()):
        assert time.monotonic() < deadline, "this did not happen"
        time.sleep(0.01)
    return result


# Good days


@pytest.mark.parametrize("size", [1, 2, 3, 8])
def test_ranks_of_a_host_share_memory(size: int) -> None:
    with Job(size).start_all() as job:
        reports = job.reports()
    assert_wired(reports)
    for rank, report in enumerate(reports):
        assert report["tcp"] == []
        assert report["inbox"] == (size > 1)
        assert report["local_ranks"] == list(range(size))
        assert report["local_rank"] == rank
        assert report["hosts"] == [socket.gethostname()] * size


@pytest.mark.parametrize("size", [2, 3, 8])
def test_ranks_take_tcp_where_they_are_told_to(size: int) -> None:
    with Job(size, UNISONO_LINKS="tcp").start_all() as job:
        reports = job.reports()
    assert_wired(reports)
    for rank, report in enumerate(reports):
        assert report["shared"] == []
        assert not report["inbox"]
        assert report["local_rank"] == rank


def test_the_launchers_local_rank_counts() -> None:
    with Job(2) as job:
        job.start(0, UNISONO_LOCAL_RANK="1")
        job.start(1, UNISONO_LOCAL_RANK="0")
        assert [x["local_rank"] for x in job.reports()] == [1, 0]


def test_no_key_is_needed_on_the_loopback_interface() -> None:
    with Job(2, UNISONO_KEY="").start_all() as job:
        assert_wired(job.reports())


def test_rank_0_may_be_the_last_to_start() -> None:
    with Job(3) as job:
        late = [job.start(rank) for rank in (2, 1)]
        time.sleep(0.4)
        assert_wired([report_of(rank) for rank in (job.start(0), *reversed(late))])


def test_rank_0_uses_the_socket_that_its_launcher_listens_on() -> None:
    with Job(2) as job, socket.create_server(("127.0.0.1", job.port)) as listener:
        listener.set_inheritable(True)
        job.start(0, pass_fds=(listener.fileno(),), UNISONO_LISTENER=str(listener.fileno()))
        job.start(1)
        reports = job.reports()
    assert reports[0].pop("after") == reports[0]["before"] - 1  # it was there before, and is closed after the meeting
    assert [x["exchanged"] for x in reports] == [[{"rank": 0}, {"rank": 1}]] * 2


def test_listeners_stay_within_the_range_of_ports() -> None:
    ports = some_ports(40)
    with Job(4, UNISONO_LINKS="tcp", UNISONO_PORTS=f"{ports[0]}-{ports[-1]}").start_all() as job:
        reports = job.reports()
    assert_wired(reports)
    assert all(port in ports for port in reports[0]["ports"])  # the lower rank is the one that listens


def test_too_few_ports_are_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with Job(2, UNISONO_LINKS="tcp", UNISONO_PORTS=f"{port}-{port}") as job:
            assert_failed([report_of(job.start(0))], "ConfigError", f"among UNISONO_PORTS={port}-{port}", "in use")


def test_eight_ranks_are_wired_in_half_a_second() -> None:
    with Job(8) as job:
        tries = [seconds_to_wire(report_of(job.start(0, "fork=8")))]
        while tries[-1] >= 0.5 and len(tries) < 20:  # others may use the machine, too
            tries.append(seconds_to_wire(report_of(job.start(0, "fork=8"))))
    assert min(tries) < 0.9, "who waits for something waits a second or more"


@pytest.mark.parametrize("links", ["auto", "tcp"])
def test_sixty_four_ranks_are_wired_in_ten_seconds(links: str) -> None:
    with Job(64, UNISONO_LINKS=links, UNISONO_DEADLINE="60") as job:
        reports = report_of(job.start(0, "fork=64"))
    assert_wired(reports)
    assert seconds_to_wire(reports) < 10 + 30  # most of it for other tests, which run meanwhile


# Memory that cannot be shared


def test_a_pair_that_cannot_pass_descriptors_takes_tcp() -> None:
    with Job(3) as job:
        job.start(0)
        job.start(1, "no-descriptors")
        job.start(2)
        reports = job.reports()
    assert_wired(reports)
    assert [x["tcp"] for x in reports] == [[1], [0, 2], [1]]
    assert [x["local_ranks"] for x in reports] == [[0, 2], [1], [0, 2]]


def test_a_pair_that_has_to_share_memory_and_cannot_is_named_on_every_rank() -> None:
    with Job(3, UNISONO_LINKS="shm") as job:
        job.start(0)
        job.start(1)
        job.start(2, "no-descriptors", UNISONO_HOST="elsewhere")
        reports = job.reports()
    assert_failed(
        reports,
        "ConfigError",
        "rank 2 (host elsewhere, pid",
        "to rank 0 (host",
        "no shared memory",
        "UNISONO_LINKS=shm",
    )


def test_ranks_that_allow_different_links_are_told() -> None:
    with Job(2) as job:
        job.start(0, UNISONO_LINKS="tcp")
        job.start(1, UNISONO_LINKS="shm")
        assert_failed(job.reports(), "ConfigError", "rank 0 does not offer it", "rank 1 has UNISONO_LINKS=shm")


@contextmanager
def two_hosts() -> Iterator[list[str]]:
    """Two network namespaces with a cable between them, 10.77.0.1 and 10.77.0.2."""
    names = [f"unisono-{os.getpid()}-{end}" for end in "ab"]
    cable = [f"uv{os.getpid()}{end}" for end in "ab"]

    def ip(*arguments: str) -> None:
        subprocess.run(["ip", *arguments], check=True, capture_output=True)

    try:
        for name in names:
            ip("netns", "add", name)
        ip("link", "add", cable[0], "netns", names[0], "type", "veth", "peer", "name", cable[1], "netns", names[1])
        for number, (name, end) in enumerate(zip(names, cable, strict=True), 1):
            ip("-n", name, "addr", "add", f"10.77.0.{number}/24", "dev", end)
            ip("-n", name, "link", "set", end, "up")
            ip("-n", name, "link", "set", "lo", "up")
        yield names
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("ip"), reason="needs root and iproute2")
def test_ranks_in_different_network_namespaces_take_tcp() -> None:
    with two_hosts() as hosts, Job(4, UNISONO_RENDEZVOUS="10.77.0.1:29400") as job:
        for rank in range(4):
            job.start(rank, prefix=("ip", "netns", "exec", hosts[rank // 2]), UNISONO_BIND="0.0.0.0")
        reports = job.reports()
        assert_wired(reports)
        assert [x["tcp"] for x in reports] == [[2, 3], [2, 3], [0, 1], [0, 1]]
        assert [x["local_rank"] for x in reports] == [0, 1, 0, 1]
        with Job(2, UNISONO_RENDEZVOUS="10.77.0.1:29400", UNISONO_KEY="") as open_job:
            for rank in range(2):
                open_job.start(rank, prefix=("ip", "netns", "exec", hosts[rank]))
            assert_failed(
                open_job.reports(), "ConfigError", "10.77.0.1:29400", "set the same UNISONO_KEY on every rank"
            )


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("ip"), reason="needs root and iproute2")
def test_an_address_that_swallows_packets_is_in_the_matrix_after_the_deadline() -> None:
    with two_hosts() as hosts, Job(3, UNISONO_RENDEZVOUS="10.77.0.1:29400", UNISONO_DEADLINE="10") as job:
        job.start(0, prefix=("ip", "netns", "exec", hosts[0]))
        job.start(1, "wrong-address", prefix=("ip", "netns", "exec", hosts[0]))
        job.start(2, prefix=("ip", "netns", "exec", hosts[1]))
        reports = job.reports()
    for report in reports:
        assert report["error"] in ("ConfigError", "DeadlineExceeded")
        assert re.search(r"rank 2 \(.*\) to rank 1 \(.*10\.77\.0\.9", report["message"]), report["message"]
        assert report["after"] == report["before"]


# Bad days


def test_a_wrong_key_is_an_error_of_who_has_it_and_the_others_go_on() -> None:
    with Job(2) as job:
        job.start(0)
        wrong = report_of(job.start(1, UNISONO_KEY="quite another key"))
        assert_failed([wrong], "ConfigError", f"rank 0 at 127.0.0.1:{job.port} refused rank 1: the job key differs")
        job.ranks.pop()
        job.start(1)
        assert_wired(job.reports())


def test_a_wrong_world_size_names_both_ends_and_the_others_go_on() -> None:
    with Job(2) as job:
        zero = job.start(0)
        wrong = report_of(job.start(1, UNISONO_SIZE="3"))
        ends = f"rank 1 (host {socket.gethostname()}, pid {wrong['pid']})", f"pid {zero.pid}"
        assert_failed([wrong], "ConfigError", *ends, "world size 3", "with 2")
        job.ranks.pop()
        job.start(1)
        assert_wired(job.reports())


def test_a_rank_beyond_the_world_is_told_so() -> None:
    with Job(2, UNISONO_DEADLINE="8") as job:
        zero = job.start(0)
        wrong = report_of(job.start(2, UNISONO_SIZE="3"))
        assert_failed([wrong], "ConfigError", "rank 2 (host", "world size 3")
        assert_failed([report_of(zero)], "DeadlineExceeded", "rank 1 of 2 did not come", "world size 3")


def test_a_duplicate_rank_names_both_ends_and_the_others_go_on() -> None:
    with Job(3) as job:
        job.start(0)
        first, second = job.start(1), job.start(1)
        wait_until(lambda: first.poll() is not None or second.poll() is not None)
        turned_away = first if first.poll() is not None else second
        job.ranks.remove(turned_away)
        report = report_of(turned_away)
        assert_failed(
            [report], "ConfigError", f"pid {turned_away.pid}", f"pid {job.ranks[1].pid}", "is a duplicate of rank 1"
        )
        job.start(2)
        assert_wired(job.reports())


def test_a_second_rank_0_finds_its_port_in_use() -> None:
    with Job(2) as job:
        first = job.start(0)
        wait_until(lambda: listens(first.pid))
        assert_failed([report_of(job.start(0))], "ConfigError", f"cannot listen on 127.0.0.1:{job.port}", "in use")


def test_a_time_out_names_the_ranks_that_are_missing() -> None:
    with Job(4, UNISONO_DEADLINE="8") as job:
        job.start(0)
        job.start(2)
        reports = job.reports()
    assert_failed(
        reports, "DeadlineExceeded", "ranks 1, 3 of 4 did not come to rank 0", f"127.0.0.1:{job.port} for 8 s"
    )


def test_a_rank_that_never_finds_rank_0_says_where_it_looked() -> None:
    with Job(2, UNISONO_DEADLINE="0.5") as job:
        report = report_of(job.start(1))
    assert_failed(
        [report], "DeadlineExceeded", f"could not reach rank 0 at 127.0.0.1:{job.port} in 0.5 s: Connection refused"
    )


def test_an_address_that_refuses_is_an_error_with_the_matrix_on_every_rank() -> None:
    with Job(3, UNISONO_LINKS="tcp") as job:
        job.start(0)
        job.start(1, "wrong-port")
        job.start(2)
        reports = job.reports()
    assert_failed(
        reports, "ConfigError", "127.0.0.1:1: Connection refused", "from 0 1 2", "   0 . - -", "   2 - x .", "x failed"
    )
    assert len({report["message"] for report in reports}) == 1


@pytest.mark.parametrize("victim", [0, 2])
def test_the_death_of_a_rank_during_rendezvous_ends_it_for_all(victim: int) -> None:
    with Job(4) as job:
        ranks = [job.start(rank) for rank in range(3)]  # rank 3 never comes
        wait_until(lambda: all(listens(rank.pid) for rank in ranks))
        time.sleep(0.2)
        ranks[victim].send_signal(signal.SIGKILL)
        killed = time.monotonic()
        reports = [report_of(rank) for rank in ranks if rank is not ranks[victim]]
    assert_failed(reports, "PeerLost", f"lost rank {victim}")
    assert all(report["ended"] - killed < 2 + 20 for report in reports)


@pytest.mark.parametrize("moment", ["wiring", "wired"])
@pytest.mark.parametrize("victim", [0, 2])
def test_the_death_of_a_rank_after_rendezvous_is_raised_by_all(victim: int, moment: str) -> None:
    with Job(4) as job:
        ranks = [job.start(rank, *([f"die={moment}"] if rank == victim else [])) for rank in range(4)]
        ranks[victim].wait(60)
        killed = time.monotonic()
        reports = [report_of(rank) for rank in ranks if rank is not ranks[victim]]
    assert_failed(reports, "PeerLost", f"lost rank {victim} (host {socket.gethostname()}, pid {ranks[victim].pid})")
    assert all(report["ended"] - killed < 2 + 20 for report in reports)


def test_ctrl_c_on_one_rank_tells_the_others() -> None:
    with Job(3) as job:
        ranks = [job.start(rank) for rank in range(2)]
        wait_until(lambda: all(listens(rank.pid) for rank in ranks))
        time.sleep(0.2)
        ranks[0].send_signal(signal.SIGINT)
        assert_failed([report_of(ranks[1])], "PeerLost", "rank 0", "was interrupted")


# Strangers


@pytest.mark.parametrize("links", ["auto", "tcp"])
def test_a_job_starts_while_strangers_send_nonsense_to_all_its_doors(links: str) -> None:
    ports = some_ports(12)
    stop = threading.Event()
    sent: dict[str, int] = {}
    with Job(4, UNISONO_LINKS=links, UNISONO_PORTS=f"{ports[0]}-{ports[-1]}") as job:
        doors = [("127.0.0.1", job.port), *(("127.0.0.1", port) for port in ports)]
        strangers = [threading.Thread(target=pester, args=(doors, stop, sent, seed)) for seed in range(3)]
        for stranger in strangers:
            stranger.start()
        try:
            for rank in range(3):
                job.start(rank)
            wait_until(lambda: sent.get("rendezvous", 0) > 30)
            job.start(3)
            reports = job.reports()
        finally:
            stop.set()
            for stranger in strangers:
                stranger.join()
    assert_wired(reports)
    assert sent["data"] > 0
    if links == "auto":
        assert sent["unix"] > 0


def test_slow_strangers_who_keep_their_connections_do_not_keep_out_the_ranks() -> None:
    with Job(2) as job:
        zero = job.start(0)
        wait_until(lambda: listens(zero.pid))
        slow = [socket.create_connection(("127.0.0.1", job.port)) for _ in range(300)]
        for sock in slow:
            with suppress(OSError):  # those that are too many are dropped
                sock.send(b"UN")
        job.start(1)
        assert_wired(job.reports())
        for sock in slow:
            sock.close()


NONSENSE = [b"", b"\0", b"GET / HTTP/1.1\r\n\r\n", b"UNIS\x01\x01\0\0\xff\xff\xff\xff", b"UNIS\x01\x01\0\0\0\0\0\x02{}",
            b"UNIS\x01\x03\0\0\0\0\0\x02{}", b"UNIS", os.urandom(5000)]  # fmt: skip


def pester(doors: list[Any], stop: threading.Event, sent: dict[str, int], seed: int) -> None:
    """Connects to every door that is open, says something that makes no sense, and hangs up sooner or later."""
    held: list[socket.socket] = []
    while not stop.is_set():
        names = re.findall(r"@(unisono-unisono-\S+)", Path("/proc/net/unix").read_text())
        for door in [*doors, *(f"\0{name}" for name in names)]:
            seed += 1
            sock = socket.socket(socket.AF_UNIX if isinstance(door, str) else socket.AF_INET)
            sock.settimeout(0.2)
            held.append(sock)
            with suppress(OSError):
                sock.connect(door)
                sock.send(NONSENSE[seed % len(NONSENSE)])
                kind = "unix" if isinstance(door, str) else "rendezvous" if door == doors[0] else "data"
                sent[kind] = sent.get(kind, 0) + 1
        while len(held) > 40:
            held.pop(0).close()
        time.sleep(0.002)
    for sock in held:
        sock.close()


def listens(pid: int) -> bool:
    """Has this process opened its TCP door? A rank does that when rank 0 has let it in."""
    inodes = {line.split()[9] for line in Path("/proc/net/tcp").read_text().splitlines()[1:] if line.split()[3] == "0A"}
    with suppress(OSError):
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                if any(f"socket:[{inode}]" == os.readlink(link) for inode in inodes):
                    return True
    return False


def test_the_key_is_not_in_any_message() -> None:
    with Job(2, UNISONO_DEADLINE="0.3") as job:
        assert KEY not in report_of(job.start(0))["message"]
