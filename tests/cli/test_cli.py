"""The command as a user meets it: a real process, its output and its exit code."""

import json
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from tests.launcher.processes import complaint


def unisono(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from unisono.cli.main import main; main()", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_explain_lists_all_candidates_best_first() -> None:
    run = unisono("explain", "allreduce", "--ranks", "8", "--bytes", "64MiB")
    assert run.returncode == 0, run.stderr
    lines = run.stdout.splitlines()
    names = [line.split()[0] for line in lines if line.startswith(("ring", "mst", "flat", "direct"))]
    assert names == ["direct", "ring", "mst", "flat"]
    assert "lower bound: 3 rounds, 112 MiB through a link, 56 MiB reduced: 99.914 ms" in run.stdout


def test_explain_as_json_has_what_the_table_has() -> None:
    run = unisono("explain", "allreduce", "--ranks", "4", "--bytes", "4000", "--alpha", "1us", "--bandwidth", "1GB/s",
                  "--gamma", "1ns", "--json")  # fmt: skip
    candidates = json.loads(run.stdout)
    assert [x["seconds"] for x in candidates[:-1]] == sorted(x["seconds"] for x in candidates[:-1])
    ring = next(x for x in candidates if x["algorithm"] == "ring")
    assert ring["rounds"] == 6
    assert ring["bytes_sent_most"] == 6000
    assert ring["seconds"] == pytest.approx(6e-6 + 6e-6 + 3e-6)
    assert ring["multiples"] == {"rounds": 3.0, "bytes": 1.0, "reduced": 1.0}
    assert ring["extra_memory"] == 0


def test_explain_one_algorithm_draws_it() -> None:
    run = unisono("explain", "broadcast", "--ranks", "4", "--root", "2", "--algorithm", "mst")
    assert run.returncode == 0, run.stderr
    assert "before" in run.stdout
    assert "round 2" in run.stdout
    assert "root 2" in run.stdout


def test_explain_measured_runs_what_it_predicts() -> None:
    run = unisono("explain", "allreduce", "--ranks", "2", "--bytes", "64", "--measured", "--json")
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    assert found["collective"] == "allreduce"
    assert all(candidate["measured"] > 0 and candidate["predicted"] > 0 for candidate in found["candidates"])
    assert len(found["candidates"]) > 5


def test_explain_writes_a_picture(tmp_path: Path) -> None:
    picture = tmp_path / "ring.svg"
    run = unisono("explain", "allreduce", "--ranks", "4", "--algorithm", "ring", "--svg", str(picture))
    assert run.returncode == 0, run.stderr
    assert ET.parse(picture).getroot().tag.endswith("svg")


def test_parameters_of_an_algorithm_can_be_set() -> None:
    run = unisono("explain", "broadcast", "--ranks", "4", "--algorithm", "pipelined_chain:segments=3", "--json")
    assert json.loads(run.stdout)[0]["rounds"] == 4 - 2 + 3


def test_a_million_ranks_are_explained() -> None:
    run = unisono("explain", "allreduce", "--ranks", "1048576", "--bytes", "1GiB", "--json")
    assert run.returncode == 0, run.stderr
    ring = next(x for x in json.loads(run.stdout) if x["algorithm"] == "ring")
    assert ring["rounds"] == 2 * (2**20 - 1)


def test_algorithms_lists_the_catalogue_with_papers() -> None:
    run = unisono("algorithms")
    assert run.returncode == 0, run.stderr
    for word in ("halving_doubling", "circulant", "Träff 2024", "arXiv:2410.14234", "pairwise"):
        assert word in run.stdout
    only = json.loads(unisono("algorithms", "scatter", "--json").stdout)
    assert [row["name"] for row in only] == ["flat", "mst"]


def test_the_version_says_whether_the_native_core_is_there() -> None:
    assert unisono("--version").stdout.startswith("unisono 0.")


NONSENSE = [
    (["explain", "allreduce", "--ranks", "0"], "the nearest is 1"),
    (["explain", "allreduce", "--ranks", "-3"], "the nearest is 1"),
    (["explain", "allreduce", "--ranks", "99999999"], "the nearest is 1048576"),
    (["explain", "allreduce", "--ranks", "many"], "--ranks"),
    (["explain", "allreduce"], "--ranks"),
    (["explain", "allredcue", "--ranks", "4"], "did you mean 'allreduce'?"),
    (["explain", "allreduce", "--ranks", "4", "--algorithm", "rnig"], "did you mean 'ring'?"),
    (["explain", "broadcast", "--ranks", "4", "--root", "4"], "the nearest is 3"),
    (["explain", "broadcast", "--ranks", "4", "--root", "-1"], "the nearest is 0"),
    (["explain", "allreduce", "--ranks", "4", "--root", "1"], "allreduce has no root"),
    (["explain", "allreduce", "--ranks", "4", "--bytes", "-1"], "from 0 up"),
    (["explain", "allreduce", "--ranks", "4", "--bytes", "64MiX"], "did you mean 'MiB'?"),
    (["explain", "allreduce", "--ranks", "4", "--bytes", "64mib"], "did you mean 'MiB'?"),
    (["explain", "allreduce", "--ranks", "4", "--bytes", "1.5B"], "the nearest is 2"),
    (["explain", "allreduce", "--ranks", "4", "--bytes", ""], "write it as 64MiB"),
    (["explain", "allreduce", "--ranks", "4", "--alpha", "30"], "did you mean 'us'?"),
    (["explain", "allreduce", "--ranks", "4", "--alpha", "30sec"], "no unit 'sec'"),
    (["explain", "allreduce", "--ranks", "4", "--bandwidth", "10Gbits"], "did you mean 'Gbit'?"),
    (["explain", "allreduce", "--ranks", "4", "--bandwidth", "0bit"], "above 0"),
    (["explain", "allreduce", "--ranks", "4", "--gamma", "nan"], "not a time"),
    (["explain", "allreduce", "--ranks", "4", "--svg", "x.svg"], "--svg needs --algorithm"),
    (["explain", "allreduce", "--ranks", "65", "--algorithm", "ring", "--svg", "x.svg"], "try --ranks 64"),
    (["explain", "allreduce", "--ranks", "4", "--algorithm", "ring", "--svg", "/nowhere/x.svg"], "cannot write"),
    (["explain", "allreduce", "--ranks", "4", "--algorithm", "mesh_2d:dims=3x3"], "extents of a mesh"),
    (["explain", "allreduce", "--ranks", "4", "--algorithm", "weighted:shares=1x2"], "for each rank"),
    (["explain", "allreduce", "--ranks", "4", "--algorithm", "ring:speed=9"], "ring has no parameter 'speed'"),
    (["explain", "allreduce", "--ranks", "4", "--algorithm", "mesh_2d:dims"], "write segments=16 or dims=4x2"),
    (["explain", "allreduce", "--ranks", "4", "--algorithmus", "ring"], "--algorithm"),
    (["expalin"], "explain"),
    (["algorithms", "allreduse"], "did you mean 'allreduce'?"),
]


@pytest.mark.parametrize(("arguments", "hint"), NONSENSE, ids=lambda x: " ".join(x) if isinstance(x, list) else "")
def test_nonsense_gets_one_line_and_exit_code_2(
    arguments: list[str], hint: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert hint in complaint(arguments, monkeypatch, capfd)


@pytest.mark.parametrize("arguments", [["expalin"], ["explain", "allreduce", "--ranks", "0"], ["plan", "--hosts", "0"]])
def test_nonsense_ends_a_process_with_one_line_and_exit_code_2(arguments: list[str]) -> None:
    run = unisono(*arguments)
    assert (run.returncode, run.stdout, len(run.stderr.splitlines())) == (2, "", 1)
