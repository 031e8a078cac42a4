"""Kills the ranks, and the processes that they started, of a launcher that was killed itself.

The launcher writes the number of each rank's process group to our standard input. Its end without our own death means
that the launcher died: on every other way out it has killed us. PR_SET_PDEATHSIG reaches ranks only, not a rank's
children. Run by path, without the package: it must start at once and hold nothing.
"""

import os
import signal
import sys
from contextlib import suppress


def guard() -> None:
    groups = [int(line) for line in sys.stdin]
    for group in groups:
        with suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    guard()
