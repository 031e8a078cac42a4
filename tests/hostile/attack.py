"""A stranger, as a process: attacks every door of some processes, and reports in JSON how often in which way.

python -m tests.hostile.attack SEED CONNECTIONS PID… (with the job and its key in UNISONO_JOB and UNISONO_KEY)

It ends after so many connections, or when its standard input does.
"""

from __future__ import annotations

import errno
import json
import os
import random
import select
import socket
import sys
import time
from collections import Counter, deque
from contextlib import suppress

from tests.hostile.attacks import ATTACKS, Attack, Attacker
from tests.hostile.ports import Door, doors_of

from unisono.comm.frames import MAGIC
from unisono.comm.handshake import Secret

MOST_KEPT = 200
BETWEEN_LOOKS = 8  # connections
PATIENCE = 0.2  # for an answer: a door that is not served yet gives none
OUT_OF_PORTS = 0.2  # seconds until some are free again


class Attacking:
    """Connections that were made, by kind, and those that are kept open."""

    def __init__(self, seed: int, secret: Secret, pids: list[int]) -> None:
        self.attacker = Attacker(random.Random(seed), secret)
        self.pids = pids
        self.made: Counter[str] = Counter()
        self.at: Counter[str] = Counter()
        self.kept: deque[socket.socket] = deque()

    def run(self, connections: int) -> None:
        while self.made.total() < connections and not ended(sys.stdin.fileno()):
            doors = doors_of(self.pids)
            if not doors:
                time.sleep(0.001)
            for _ in range(min(BETWEEN_LOOKS, connections - self.made.total()) if doors else 0):
                self.attack(self.attacker.rng.choice(doors), self.rarest())
            self.trickle()

    def rarest(self) -> Attack:
        """One of those that were made least often."""
        fewest = min(self.made[attack.__name__] for attack in ATTACKS)
        return self.attacker.rng.choice([attack for attack in ATTACKS if self.made[attack.__name__] == fewest])

    def attack(self, door: Door, attack: Attack) -> None:
        sock = socket.socket(socket.AF_UNIX if isinstance(door, str) else socket.AF_INET)
        sock.settimeout(PATIENCE)
        kept = False
        try:
            sock.connect(door)
            self.made[attack.__name__] += 1
            self.at["unix" if isinstance(door, str) else "tcp"] += 1
            kept = attack(self.attacker, sock)
        except OSError as error:  # the door is closed by now, or closes on us
            if error.errno == errno.EADDRNOTAVAIL:
                time.sleep(OUT_OF_PORTS)
        finally:
            if kept:
                self.keep(sock)
            else:
                sock.close()

    def keep(self, sock: socket.socket) -> None:
        self.kept.append(sock)
        if len(self.kept) > MOST_KEPT:
            self.kept.popleft().close()

    def trickle(self) -> None:
        """One byte more on a connection that was kept."""
        if self.kept:
            with suppress(OSError):
                self.attacker.rng.choice(self.kept).send(MAGIC[1:2])


def ended(stream: int) -> bool:
    return bool(select.select([stream], [], [], 0)[0]) and not os.read(stream, 1)


if __name__ == "__main__":
    seed, connections, *pids = map(int, sys.argv[1:])
    attacking = Attacking(seed, Secret(os.environ["UNISONO_JOB"], os.environ["UNISONO_KEY"].encode()), pids)
    attacking.run(connections)
    print(json.dumps({"made": attacking.made, "at": attacking.at}))
