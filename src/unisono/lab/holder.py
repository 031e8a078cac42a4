"""Process 1 of a host of a lab: makes the host's namespaces, and keeps them until it ends.

Our standard input has a line of JSON that says what the host looks like; we answer with a line, "ready" or what went
wrong. A second line, "stay", lets us go on when our input ends. Without it we end with who started us, also if that was
killed, and everything goes with us: the kernel kills the processes of a PID namespace with the first of them, and
removes interfaces and mounts with the last process that uses them.

Run by path, without the package: it has to start at once and to hold little.
"""

import ctypes
import json
import os
import signal
import socket
import sys

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWNET = 0x40000000
MS_BIND = 1 << 12
MS_REC = 1 << 14
MS_PRIVATE = 1 << 18

OWN_DIRECTORIES = ("/tmp", "/dev/shm")
# Nothing but what the ranks send is to be counted on the interfaces: without IPv6, nobody solicits neighbours.
WITHOUT_IPV6 = ("/proc/sys/net/ipv6/conf/all/disable_ipv6", "/proc/sys/net/ipv6/conf/default/disable_ipv6")

libc = ctypes.CDLL(None, use_errno=True)


def become_host(name: str, shared: list[str], addresses: str) -> None:
    check("have namespaces", libc.unshare(CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS))
    socket.sethostname(name)
    mount("none", "/", None, MS_REC | MS_PRIVATE)  # what we mount is not to appear in the namespace that we left
    for directory in OWN_DIRECTORIES:
        if os.path.isdir(directory):
            cover(directory, "tmpfs", [path for path in shared if path.startswith(f"{directory}/")], b"mode=1777")
    mount("proc", "/proc", "proc")
    cover("/sys", "sysfs", ["/sys/fs/cgroup"])  # its class/net is that of the network which mounts it
    know(addresses)
    for setting in WITHOUT_IPV6:
        if os.path.exists(setting):
            with open(setting, "w") as file:
                file.write("1")


def cover(directory: str, kind: str, kept: list[str], options: bytes | None = None) -> None:
    """Mount something new over a directory, and in it again those below that are kept."""
    below = {path: os.open(path, os.O_PATH) for path in kept if os.path.isdir(path)}
    mount(kind, directory, kind, 0, options)
    for path, descriptor in below.items():
        os.makedirs(path, exist_ok=True)
        mount(f"/proc/self/fd/{descriptor}", path, None, MS_BIND | MS_REC)
        os.close(descriptor)


def know(addresses: str) -> None:
    """Names of the other hosts, in a copy of /etc/hosts that only this host sees."""
    with open("/etc/hosts") as file:
        text = file.read()
    copy = "/tmp/hosts"
    with open(copy, "w") as file:
        file.write(f"{text}\n{addresses}\n")
    mount(copy, "/etc/hosts", None, MS_BIND)
    os.unlink(copy)


def mount(source: str, target: str, kind: str | None, flags: int = 0, options: bytes | None = None) -> None:
    result = libc.mount(
        os.fsencode(source), os.fsencode(target), kind and kind.encode(), ctypes.c_ulong(flags), options
    )
    check(f"mount {kind or source} on {target}", result)


def check(what: str, result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def main() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # orphans become ours, and the kernel buries them
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # which for the first process of a host is to ignore it
    os.chdir("/")
    try:
        become_host(**json.loads(sys.stdin.readline()))
        answer = "ready"
    except OSError as error:
        answer = f"cannot {error.strerror}" if error.filename is None else str(error)
    print(answer, flush=True)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 1)
    if sys.stdin.readline() == "stay\n":
        os.dup2(nothing, 0)
        while True:
            signal.pause()


if __name__ == "__main__":
    main()
