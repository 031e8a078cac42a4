"""What every rank executes, with an MPI of one rank that adds up rightly or wrongly. It does not need unisono."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from unisono.bench.contestants import RANK

MPI = """
import sys
sys.modules["unisono"] = None  # from here on, importing it raises ModuleNotFoundError
IN_PLACE, SUM, MAX = "in place", "sum", "max"

def Get_library_version():
    return "an MPI of one rank"

class World:
    rank, size = 0, 1

    def Barrier(self):
        pass

    def Allreduce(self, x, out, op):
        if x is not IN_PLACE:
            out[:] = x
        if op is SUM:
            out += WRONG

COMM_WORLD = World()
"""


@pytest.mark.parametrize("wrong", [0, 1])
@pytest.mark.parametrize("variant", ["in-place", "oop", "fresh"])
def test_a_wrong_result_is_not_timed(wrong: int, variant: str, tmp_path: Path) -> None:
    (tmp_path / "mpi4py").mkdir()
    (tmp_path / "mpi4py" / "__init__.py").touch()
    (tmp_path / "mpi4py" / "MPI.py").write_text(f"WRONG = {wrong}\n{MPI}")
    out = tmp_path / "out"
    task = ["--library", "mpi", "--cells", f"allreduce:{variant}:8", "--budget", "0.001", "--out", out]
    import_path = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); sys.argv[0] = {str(RANK)!r}; "
    by_path = import_path + "import runpy; runpy.run_path(sys.argv[0], run_name='__main__')"
    run = subprocess.run([sys.executable, "-c", by_path, *task], capture_output=True, text=True, timeout=60)
    if wrong:
        assert run.returncode == 1
        assert "an MPI of one rank: allreduce is wrong on rank 0" in run.stderr
        assert not out.exists()
    else:
        assert run.returncode == 0, run.stderr
        (line,) = out.read_text().splitlines()
        assert json.loads(line)["version"] == "an MPI of one rank"
        assert json.loads(line)["iterations"] >= 6
