"""Memory that backward frees stays in the process."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("torch", reason="torch is not installed")

PROGRAM = """\
import resource, sys, torch
from unisono.train.heap import keep_freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(4):
        gradients = [torch.ones(4 << 20) for _ in range(3)]  # 16 MiB each
        while gradients:
            gradients.pop()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

torch.set_num_threads(1)
faults()
keep_freed_memory()
faults()
print(faults())
"""
OF_EACH_STEP = 3 * (16 << 20) // os.sysconf("SC_PAGESIZE")


def faults(**environment: str) -> int:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env={**os.environ, **environment}, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def test_gradients_are_made_in_memory_that_is_there() -> None:
    assert faults() < OF_EACH_STEP / 2


def test_who_has_chosen_how_memory_is_allocated_is_obeyed() -> None:
    assert faults(MALLOC_TRIM_THRESHOLD_="131072") > OF_EACH_STEP
