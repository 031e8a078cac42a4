"""By which addresses a rank can be reached, and which of them is the nearest."""

from __future__ import annotations

import socket
import struct
from collections.abc import Container, Iterator
from contextlib import suppress
from fcntl import ioctl

MOST = 8  # announced: a host may have a bridge for every container
WILDCARDS = ("0.0.0.0", "::")

# From linux/sockios.h and linux/if.h.
_SIOCGIFFLAGS, _SIOCGIFADDR, _IFF_UP = 0x8913, 0x8915, 1
_IFREQ = struct.Struct("16s24x")  # the name of an interface, and room for the answer
_GLOBAL_SCOPE = "00"


def is_loopback(address: str) -> bool:
    return address.startswith("127.") or address == "::1"


def announced_addresses(way: str, bind: str | None) -> list[str]:
    """Where a rank can be reached that has this address on the way to rank 0: there, and, unless it was told to bind
    to one address, on its other networks, too. A job on the loopback interface stays there."""
    own = [address for address in own_addresses() if (":" in address) == (":" in way)]
    if way in WILDCARDS:
        return own[:MOST]
    if is_loopback(way) or bind == way:
        return [way]
    if bind in own:
        return [bind]
    return list(dict.fromkeys([way, *own]))[:MOST]


def own_addresses() -> list[str]:
    """The addresses of this host on networks."""
    return [*_own_ipv4(), *_own_ipv6()]


def nearest_first(addresses: list[str], own: Container[str]) -> list[str]:
    """Those on a network of ours come before those behind a router. The last are those that we have ourselves: bridges
    of container runtimes have the same address on every host."""
    return sorted(dict.fromkeys(addresses), key=lambda address: (address in own, not is_direct(address)))


def is_direct(address: str) -> bool:
    """Does no router lie on the way there? Routes of IPv6 do not tell."""
    if ":" in address:
        return True
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_DONTROUTE, 1)
        try:
            probe.connect((address, 9))  # of datagrams: nothing is sent, only a route is chosen
        except OSError:
            return False
    return True


def _own_ipv4() -> Iterator[str]:
    """The first address of every interface that is up."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for _, name in socket.if_nameindex():
            request = _IFREQ.pack(name.encode())
            with suppress(OSError):  # it has none, or is gone
                (flags,) = struct.unpack_from("H", ioctl(sock, _SIOCGIFFLAGS, request), 16)
                address = socket.inet_ntoa(ioctl(sock, _SIOCGIFADDR, request)[20:24])
                if flags & _IFF_UP and not is_loopback(address) and not address.startswith("169.254."):
                    yield address


def _own_ipv6() -> Iterator[str]:
    with suppress(OSError), open("/proc/net/if_inet6") as file:
        for line in file:
            digits, _, _, scope, _, _ = line.split()
            if scope == _GLOBAL_SCOPE:
                yield socket.inet_ntop(socket.AF_INET6, bytes.fromhex(digits))
