"""A call that takes long: rank 0 says once who is awaited, and where it is."""

import re
import subprocess
from pathlib import Path

from tests.launcher.processes import command

PROGRAM = """\
import time
import numpy as np
import unisono.comm.desk; unisono.comm.desk.SECONDS_TO_ANSWER = 5

def load():
    time.sleep(20)

comm = unisono.init()
comm.barrier()
if comm.rank == 2:
    load()
comm.allreduce(np.ones(1000), algorithm="ring")
comm.close()
"""


def test_rank_0_says_once_who_is_awaited_and_where_it_is(tmp_path: Path) -> None:
    program = tmp_path / "late.py"
    program.write_text(PROGRAM)
    done = subprocess.run(command("-n", "4", program), capture_output=True, text=True, timeout=120, check=True)
    notices = [line for line in done.stderr.splitlines() if "waited" in line]
    assert len(notices) == 1, done.stderr
    assert re.search(
        r"unisono: rank 0, rank 1 and rank 3 have waited [12]\d s for rank 2 \(host \S+, pid \d+\), "
        r"in call 1, allreduce ring of 8,000 bytes of float64, sum at \S+late\.py:12; "
        r"rank 2 is at \S+late\.py:6 in load, after call 0, barrier \w+ at \S+late\.py:9",
        notices[0],
    )
