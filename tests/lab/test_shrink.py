"""Ranks of several hosts go on without those of a host that they lost."""

import json
import sys

from tests.lab.labs import needs_lab, unisono_lab

from unisono.lab import Lab

pytestmark = needs_lab


def test_survivors_of_several_hosts_go_on() -> None:
    fates = [["call", 2], ["call", 3], None, ["shrink", 0.02], None, None]  # the first host is lost, rank 0 included
    with Lab(hosts=3) as lab:
        words = (sys.executable, "-m", "tests.comm.shrinking_rank", json.dumps(fates), 30, 30)
        done = unisono_lab("run", "--name", lab.name, "-n", 6, "--keep-going", *words)
    assert done.returncode == 0, done.stderr
    assert "the others go on" in done.stderr
    reports = {line[1]: json.loads(line[4:]) for line in done.stdout.splitlines()}
    assert sorted(reports) == ["2", "4", "5"]
    for number, rank in enumerate("245"):
        report = reports[rank]
        assert (report["left"], report["rank"], report["size"]) == ([2, 4, 5], number, 3)
        assert report["kept"] is None
