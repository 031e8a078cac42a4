"""A host that vanishes without a word: its cable is cut, and nobody is told."""

import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.lab.labs import needs_lab

from unisono.lab import Lab

pytestmark = needs_lab

PROGRAM = """\
import time
import numpy as np
import unisono

comm = unisono.init(deadline=60)
comm.barrier()
print("ready", flush=True)
try:
    while True:
        comm.allreduce(np.ones(1000))
        time.sleep(0.01)
except unisono.errors.UnisonoError as error:
    print("left", time.monotonic(), type(error).__name__, error, flush=True)
"""
NOTICED = 4.0  # seconds: see rendezvous._keep_alive
MARGIN = 20.0


@pytest.mark.parametrize("vanished", [0, 2])
def test_the_others_notice_after_some_seconds_and_name_its_rank(vanished: int, tmp_path: Path) -> None:
    program = tmp_path / "train.py"
    program.write_text(PROGRAM)
    with Lab(hosts=3, share=[tmp_path]) as lab:
        command = lab.command(sys.executable, program, ranks=3)
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as job:
            assert job.stdout is not None
            assert sorted(job.stdout.readline() for _ in range(3)) == [f"[{rank}] ready\n" for rank in range(3)]
            cut = ["nsenter", "-t", str(lab.hosts[vanished].pid), "-n", "ip", "link", "set", "eth0", "down"]
            subprocess.run(cut, check=True, timeout=10)
            since = time.monotonic()
            out, err = job.communicate(timeout=120)
    ends = {int(rank): (float(when), kind, text) for rank, when, kind, text in re.findall(ENDS, out)}
    assert sorted(ends) == [0, 1, 2], (out, err)
    for rank in {0, 1, 2} - {vanished}:
        when, kind, text = ends[rank]
        assert kind == "PeerLost"
        assert f"lost rank {vanished} (host host{vanished}" in text
        assert when - since < NOTICED + MARGIN


ENDS = r"\[(\d)\] left (\S+) (\w+) (.*)"
