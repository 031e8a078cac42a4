"""Joins the hosts of a lab: from each a veth pair to a bridge, with a token bucket at both ends.

The bridge is in a network of its own. So nothing is made in the network of the machine, whose interfaces, names and
addresses are none of our business, and no two labs can meet.
"""

from __future__ import annotations

import subprocess

from ..errors import ConfigError, DeadlineExceeded
from .host import Holder, Host
from .namespaces import in_network_of

NETWORK = "10.77.0"
CONGESTION_CONTROL = "cubic"
# A packet that is cut into segments only later (GSO) has up to 64 KiB, and a bucket that is smaller has to cut it.
SMALLEST_BURST = 70_000
SECONDS_OF_BURST = 0.001
# The queue before a bucket: what a switch would drop, it drops, but not what one stream needs to fill its link.
SECONDS_OF_QUEUE = 0.025
SMALLEST_QUEUE = 4 * SMALLEST_BURST
SECONDS_FOR_COMMAND = 20


def address_of(number: int) -> str:
    return f"{NETWORK}.{number + 1}"


def wire(switch: Holder, hosts: list[Host]) -> None:
    with switch.process() as pidfd, in_network_of(pidfd):
        _run("ip", ["link add bridge type bridge stp_state 0 mcast_snooping 0", "link set bridge up"])
        _run("ip", [line for host in hosts for line in _plug(host)])
        _run("tc", [_bucket(host.name, host.rate) for host in hosts if host.rate])
    for host in hosts:
        with host.process() as pidfd, in_network_of(pidfd):
            _run("ip", _connect(host.address))
            _run("tc", [_bucket("eth0", host.rate)] if host.rate else [])


def _plug(host: Host) -> list[str]:
    """The pair: eth0 on the host, and an end with the name of the host on the switch."""
    return [
        f"link add {host.name} type veth peer name eth0 netns {host.pid}",
        f"link set {host.name} master bridge up",
    ]


def _connect(address: str) -> list[str]:
    """Routes choose the congestion control: the default of a network can only be one that the machine allows to all.

    That is often bbr, which paces; net.ipv4.tcp_allowed_congestion_control is the machine's and not ours to change.
    """
    by_route = f"congctl {CONGESTION_CONTROL}"
    return [
        "link set lo up",
        f"address add {address}/24 dev eth0 noprefixroute",
        "link set eth0 up",
        f"route add {NETWORK}.0/24 dev eth0 src {address} {by_route}",
        f"route replace local {address} dev lo table local src {address} {by_route}",
        f"route replace local 127.0.0.0/8 dev lo table local src 127.0.0.1 {by_route}",
    ]


def _bucket(interface: str, rate: int) -> str:
    """Limits what leaves by an interface; for what comes to a host, that is the other end of its pair."""
    burst = max(SMALLEST_BURST, round(rate / 8 * SECONDS_OF_BURST))
    queue = max(SMALLEST_QUEUE, round(rate / 8 * SECONDS_OF_QUEUE)) + burst
    return f"qdisc add dev {interface} root tbf rate {rate}bit burst {burst} limit {queue}"


def _run(command: str, lines: list[str]) -> None:
    if not lines:
        return
    text = "".join(f"{line}\n" for line in lines)
    words = [command, "-batch", "-"]
    try:
        done = subprocess.run(words, input=text, capture_output=True, text=True, timeout=SECONDS_FOR_COMMAND)
    except subprocess.TimeoutExpired:
        raise DeadlineExceeded(f"{command} did not make the links of the lab in {SECONDS_FOR_COMMAND} s") from None
    if done.returncode:
        why = "; ".join(done.stderr.split("\n")).strip("; ")
        raise ConfigError(f"{command} cannot make the links of the lab: {why}")
