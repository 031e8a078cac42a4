"""One rank, as a process: it is wired as its environment says, does what its arguments say, and reports in JSON.

python -m tests.comm.wired_rank [die=wiring|wired] [no-descriptors] [wrong-port] [wrong-address] [fork=RANKS]
    [silent-first=ADDRESS] [lose-stream=NUMBER]
"""

from __future__ import annotations

import json
import mmap
import os
import signal
import sys
import time
from dataclasses import replace
from tempfile import TemporaryFile
from typing import Any

from unisono.comm import doors, frames, wiring
from unisono.comm.conversation import Talk
from unisono.comm.rendezvous import Card
from unisono.comm.wiring import Wiring, wire
from unisono.config import Address, read_settings
from unisono.errors import UnisonoError

PAGE = mmap.PAGESIZE


def make_inbox(size: int) -> int:
    """A page for each rank."""
    inbox = os.memfd_create("inbox", os.MFD_CLOEXEC)
    os.posix_fallocate(inbox, 0, size * PAGE)
    return inbox


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def inheritable_descriptors() -> list[str]:
    """Those that a child of this process would have, beside the standard ones."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            if int(name) > 2 and os.get_inheritable(int(name)):
                found.append(os.readlink(f"/proc/self/fd/{name}"))
        except OSError:
            pass
    return found


def talk_to_everybody(wiring: Wiring) -> dict[int, str]:
    """What each peer says, over the link with it, in both directions."""
    for peer, inbox in wiring.inboxes.items():
        with mmap.mmap(inbox, wiring.size * PAGE) as memory:
            text = f"{wiring.rank} to {peer}".encode()
            memory[wiring.rank * PAGE : wiring.rank * PAGE + len(text)] = text
    for peer, streams in wiring.sockets.items():
        for number, sock in enumerate(streams):
            sock.setblocking(True)
            sock.sendall(f"{wiring.rank} to {peer} {number}".encode().ljust(16))
    heard = {}
    for peer, streams in wiring.sockets.items():
        for number, sock in enumerate(streams):
            text, _, order = sock.recv(16).decode().strip().rpartition(" ")
            assert order == str(number), "both ends have the streams in the same order"
            heard[peer] = text
    wiring.control.exchange(None, deadline=40)  # all have written
    if wiring.inbox is not None:
        with mmap.mmap(wiring.inbox, wiring.size * PAGE) as memory:
            for peer in wiring.inboxes:
                heard[peer] = memory[peer * PAGE : peer * PAGE + 16].rstrip(b"\0").decode()
    return heard


def die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def misbehave(options: dict[str, str]) -> None:
    if options.get("die") == "wiring":
        wiring._Pairs.connect = die  # type: ignore[method-assign]
    if "no-descriptors" in options:
        frames._send_descriptor = lambda sock, data, descriptor: sock.send(data)
    wrong: dict[str, Any] = {"port": 1} if "wrong-port" in options else {}
    before = [options["silent-first"]] if "silent-first" in options else []
    card = doors.Doors.card

    def announce(self: doors.Doors, way: str) -> Card:
        right = card(self, way)
        addresses = ["10.77.0.9"] if "wrong-address" in options else right.addresses
        return replace(right, addresses=[*before, *addresses], **wrong)

    doors.Doors.card = announce  # type: ignore[method-assign]
    if "lose-stream" in options:
        lose_once(int(options["lose-stream"]))


def lose_once(stream: int) -> None:
    """The first call for this stream fails when everything before it has worked."""
    call = wiring._Pairs.call
    lost: list[int] = []

    def call_or_lose(self: wiring._Pairs, card: Card, where: Address, number: int, seconds: float) -> Talk[None]:
        yield from call(self, card, where, number, seconds)
        if number == stream and not lost:
            lost.append(number)
            raise OSError(104, "Connection reset by peer")

    wiring._Pairs.call = call_or_lose  # type: ignore[method-assign]


def run(options: dict[str, str]) -> dict[str, Any]:
    before = open_descriptors()
    report: dict[str, Any] = {"pid": os.getpid(), "started": time.monotonic()}
    try:
        wired = wire(read_settings(), make_inbox)
        report |= {
            "wired": time.monotonic(),
            "inherited": inheritable_descriptors(),
            "rank": wired.rank,
            "size": wired.size,
            "local_rank": wired.local_rank,
            "local_ranks": wired.local_ranks,
            "hosts": wired.hosts,
            "inbox": wired.inbox is not None,
            "shared": sorted(wired.inboxes),
            "tcp": sorted(wired.sockets),
            "streams": {peer: len(streams) for peer, streams in wired.sockets.items()},
            "ports": [sock.getsockname()[1] for streams in wired.sockets.values() for sock in streams],
            "peers": {peer: [sock.getpeername()[0] for sock in streams] for peer, streams in wired.sockets.items()},
            "pids": wired.pids,
            "control": len(wired.control.channels),
        }
        if options.get("die") == "wired":
            die()
        try:
            report["heard"] = talk_to_everybody(wired)
            report["exchanged"] = wired.control.exchange({"rank": wired.rank}, deadline=40)
        finally:
            wired.close()
            wired.close()
    except UnisonoError as error:
        report |= {"error": type(error).__name__, "message": str(error)}
    report |= {"ended": time.monotonic(), "before": before, "after": open_descriptors()}
    return report


def fork(size: int) -> list[dict[str, Any]]:
    """All ranks from one process that has imported everything: what remains is the time that wiring takes."""
    files = [TemporaryFile("w+") for _ in range(size)]  # noqa: SIM115
    children = []
    for rank, file in enumerate(files):
        if not (child := os.fork()):
            os.environ["UNISONO_RANK"] = str(rank)
            json.dump(run({}), file)
            file.flush()
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)
    reports = []
    for file in files:
        with file:
            file.seek(0)
            reports.append(json.load(file))
    return reports


if __name__ == "__main__":
    given = dict(argument.partition("=")[::2] for argument in sys.argv[1:])
    misbehave(given)
    print(json.dumps(fork(int(given["fork"])) if "fork" in given else run(given)))
