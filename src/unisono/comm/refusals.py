"""Why connections were refused, said once for each reason, and from then on counted."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from enum import Enum

log = logging.getLogger("unisono.comm")


class Why(Enum):
    """A reason, and what to do if the one that was refused was meant to join."""

    SILENCE = "it did not say in time who it is", ""
    NONSENSE = "what it sends is no handshake", ""
    HUNG_UP = "it hung up before it had said who it is", ""
    CROWD = "too many came at once, and it had waited longest", "it tries again by itself"
    NO_ROOM = "this process has no descriptors or memory left for it", "raise `ulimit -n`"
    VERSION = "it speaks another version of the protocol", "install the same unisono on every host"
    JOB = "it belongs to another job", "every rank needs the same UNISONO_JOB, and an address of that job"
    KEY = "its key differs", "every rank needs the same UNISONO_KEY"
    PLACE = "its place is not free", "every rank needs its own UNISONO_RANK, and all the same UNISONO_SIZE"

    @property
    def reason(self) -> str:
        return self.value[0]

    @property
    def remedy(self) -> str:
        return self.value[1]


class Refused(Exception):
    """A stranger that does not belong here."""

    def __init__(self, why: Why, details: str = "") -> None:
        super().__init__(details or why.reason)
        self.why = why
        self.details = details


class Refusals:
    """Told when the first comes, and whenever there are ten times as many: an attack fills no log."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.counts: Counter[Why] = Counter()

    def note(self, why: Why, *, by: str, where: str, details: str = "") -> None:
        with self._lock:
            self.counts[why] += 1
            count = self.counts[why]
        if count == 1:
            remedy = f". If it was meant to join: {why.remedy}" if why.remedy else ""
            reason = f"{why.reason}{f': {details}' * bool(details)}{remedy}. Others like it are counted, not told"
            log.warning("unisono: %s refused a connection from %s: %s", by, where, reason)
        elif str(count).strip("0") == "1":
            log.warning("unisono: %s refused the %dth connection because %s", by, count, why.reason)


OF_THIS_PROCESS = Refusals()
"""A rank may make any number of communicators: strangers are not told of anew for each."""
