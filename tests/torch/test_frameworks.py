"""Frameworks that train with torch.distributed, on unisono. Each is skipped where it is not installed."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SAME = "all ranks have the same model"


def _run(script: str, *launcher: str) -> str:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, *launcher, str(HERE / script)],
        env=environment, capture_output=True, text=True, timeout=180,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.skipif(not find_spec("accelerate"), reason="accelerate is not installed")
@pytest.mark.timeout(240)
def test_accelerate_trains_on_unisono() -> None:
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    assert _run("with_accelerate.py", *launcher).count(SAME) == 2


@pytest.mark.skipif(not find_spec("lightning"), reason="lightning is not installed")
@pytest.mark.timeout(240)
def test_lightning_trains_on_unisono() -> None:
    assert _run("with_lightning.py").count(SAME) == 2
