"""Which way ranks take to each other, on hosts that have several: real network namespaces where that is possible."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
from tests.comm.processes import Job
from tests.comm.test_wiring import assert_wired, listens, two_hosts, wait_until

from unisono.comm.addresses import announced_addresses, is_direct, nearest_first, own_addresses

needs_namespaces = pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("ip"), reason="needs root and iproute2")


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


def add_second_cable(hosts: list[str]) -> None:
    """10.78.0.1 and 10.78.0.2, beside 10.77.0.1 and 10.77.0.2."""
    ends = [f"uw{os.getpid()}{end}" for end in "ab"]
    ip("link", "add", ends[0], "netns", hosts[0], "type", "veth", "peer", "name", ends[1], "netns", hosts[1])
    for number, (host, end) in enumerate(zip(hosts, ends, strict=True), 1):
        ip("-n", host, "addr", "add", f"10.78.0.{number}/24", "dev", end)
        ip("-n", host, "link", "set", end, "up")


def swallow_packets(host: str, address: str) -> None:
    """What this host sends there goes to a card that nobody has."""
    cable = f"uv{os.getpid()}b"
    ip("-n", host, "neigh", "add", address, "lladdr", "02:00:00:00:00:99", "dev", cable, "nud", "permanent")


def inside(host: str) -> tuple[str, ...]:
    return ("ip", "netns", "exec", host)


def listening_addresses(pid: int) -> set[str]:
    """Where a process listens, as its own network namespace has it."""
    links = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):  # closed meanwhile
            links.add(os.readlink(link))
    found = set()
    for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]:
        _, local, _, state, *_, inode = line.split()[:10]
        if state == "0A" and f"socket:[{inode}]" in links:
            found.add(".".join(str(byte) for byte in reversed(bytes.fromhex(local.split(":")[0]))))
    return found


def test_a_job_on_the_loopback_interface_listens_nowhere_else() -> None:
    assert announced_addresses("127.0.0.1", None) == ["127.0.0.1"]
    with Job(3, UNISONO_LINKS="tcp") as job:
        ranks = [job.start(rank) for rank in range(2)]
        wait_until(lambda: all(listens(rank.pid) for rank in ranks))
        assert [listening_addresses(rank.pid) for rank in ranks] == [{"127.0.0.1"}] * 2


def test_no_address_of_ours_is_a_loopback_address() -> None:
    assert not [address for address in own_addresses() if address.startswith("127.") or address == "::1"]
    assert all(is_direct(address) for address in [*own_addresses(), "127.0.0.1"])


def test_what_we_have_ourselves_is_tried_last() -> None:
    bridge = "172.17.0.1"  # on every host that runs containers
    assert nearest_first([bridge, "127.0.0.1", "127.0.0.1"], {bridge}) == ["127.0.0.1", bridge]


@needs_namespaces
def test_the_way_without_a_router_is_taken() -> None:
    with two_hosts() as hosts, Job(3, UNISONO_RENDEZVOUS="10.99.0.1:29400") as job:
        ip("-n", hosts[0], "addr", "add", "10.99.0.1/32", "dev", "lo")
        ip("-n", hosts[1], "route", "add", "10.99.0.1/32", "via", "10.77.0.1")
        for rank, host in enumerate((hosts[0], hosts[0], hosts[1])):
            job.start(rank, prefix=inside(host), UNISONO_STREAMS="2")
        reports = job.reports()
    assert_wired(reports)
    assert reports[2]["peers"] == {"0": ["10.77.0.1"] * 2, "1": ["10.77.0.1"] * 2}


@needs_namespaces
@pytest.mark.parametrize(
    ("bind", "expected"), [("", {"10.77.0.1", "10.78.0.1"}), ("10.77.0.1", {"10.77.0.1"}), ("0.0.0.0", {"0.0.0.0"})]
)
def test_a_rank_listens_on_all_networks_of_its_host_unless_it_is_told_where(bind: str, expected: set[str]) -> None:
    variables = {"UNISONO_RENDEZVOUS": "10.77.0.1:29400", "UNISONO_BIND": bind, "UNISONO_LINKS": "tcp"}
    with two_hosts() as hosts, Job(3, **variables) as job:
        add_second_cable(hosts)
        ranks = [job.start(rank, prefix=inside(hosts[0])) for rank in range(2)]
        others = expected if bind != "0.0.0.0" else {"10.77.0.1", "10.78.0.1"}  # rank 0 is the one that it tells
        wait_until(lambda: [listening_addresses(rank.pid) for rank in ranks] == [expected, others])
        job.start(2, prefix=inside(hosts[1]))
        reports = job.reports()
    assert_wired(reports)
    assert reports[2]["peers"] == {"0": ["10.77.0.1"], "1": ["10.77.0.1"]}


@needs_namespaces
def test_the_next_address_is_tried_when_one_is_silent() -> None:
    with two_hosts() as hosts, Job(3, UNISONO_RENDEZVOUS="10.77.0.1:29400") as job:
        swallow_packets(hosts[1], "10.77.0.9")
        job.start(0, prefix=inside(hosts[0]))
        job.start(1, "silent-first=10.77.0.9", prefix=inside(hosts[0]))
        job.start(2, prefix=inside(hosts[1]))
        reports = job.reports()
    assert_wired(reports)
    assert reports[2]["peers"]["1"] == ["10.77.0.1"]


@needs_namespaces
def test_the_error_names_all_addresses_that_were_tried() -> None:
    with two_hosts() as hosts, Job(3, UNISONO_RENDEZVOUS="10.77.0.1:29400", UNISONO_DEADLINE="4") as job:
        swallow_packets(hosts[1], "10.77.0.8")
        job.start(0, prefix=inside(hosts[0]))
        job.start(1, "silent-first=10.77.0.8", "wrong-address", prefix=inside(hosts[0]))
        job.start(2, prefix=inside(hosts[1]))
        reports = job.reports()
    for report in reports:
        assert report["error"] in ("ConfigError", "DeadlineExceeded")
        for address in ("10.77.0.8", "10.77.0.9"):
            assert re.search(rf"rank 2 \(.*\) to rank 1 \(.*{address}", report["message"]), report["message"]
        assert report["after"] == report["before"]
