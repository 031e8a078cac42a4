"""The launchers of others, as they are installed here, and a script that all of them start."""

import os
import random
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

MPI = Path(os.environ.get("UNISONO_TEST_MPI") or Path(__file__).parents[2] / ".venv-mpi")
"""`.ci/run` installs them there, each in an environment of its own, because both have an mpirun."""

SCRIPT = Path(__file__).with_name("script.py")
Start = Callable[..., subprocess.CompletedProcess[str]]


def free_address() -> str:
    """Below the ports that the kernel gives to whoever connects: there, one that is free now stays free."""
    while True:
        port = random.randrange(20000, 32768)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return f"127.0.0.1:{port}"


def environment(**variables: str) -> dict[str, str]:
    """Ours without what a launcher of this test run has set."""
    foreign = ("UNISONO_", "OMPI_", "PMI", "SLURM_", "TORCHELASTIC_")
    kept = {name: text for name, text in os.environ.items() if not name.startswith(foreign)}
    return kept | variables


def run(command: list[str], **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, env=environment(**variables), capture_output=True, text=True, timeout=120)


def open_mpi(ranks: int, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    mpirun = [str(_mpi("openmpi")), "--allow-run-as-root", "--oversubscribe", "-n", str(ranks)]
    return run([*mpirun, sys.executable, str(SCRIPT), *arguments], **_mpi4py("openmpi"), **variables)


def mpich(ranks: int, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    mpiexec = [str(_mpi("mpich")), "-n", str(ranks)]
    return run([*mpiexec, sys.executable, str(SCRIPT), *arguments], **_mpi4py("mpich"), **variables)


def torchrun(ranks: int, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    if not (program := shutil.which("torchrun", path=str(Path(sys.executable).parent))):
        pytest.skip("torch is not installed")
    options = ["--nproc-per-node", str(ranks), "--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0"]
    return run([program, *options, str(SCRIPT), *arguments], **variables)


def _mpi(name: str) -> Path:
    program = MPI / name / "bin" / "mpiexec"
    if not program.exists():
        pytest.skip(f"{name} is not in {MPI}; .ci/run installs it")
    return program


def _mpi4py(name: str) -> dict[str, str]:
    """For a script that uses MPI besides."""
    (packages,) = (MPI / name / "lib").glob("python3.*/site-packages")
    (library,) = (MPI / name / "lib").glob("libmpi.so.??")
    return {"PYTHONPATH": str(packages), "MPI4PY_LIBMPI": str(library)}
