"""The fuzzers of the native core, for a few seconds each; `make fuzz` runs them for as long as you like."""

from __future__ import annotations

import secrets
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
NAMES = sorted(path.name.removesuffix("_fuzz.cpp") for path in HERE.glob("*_fuzz.cpp"))


def test_there_are_fuzzers_and_each_has_a_corpus() -> None:
    assert NAMES == ["frame", "program", "run", "server", "shared_program"]
    assert sorted(path.name for path in (HERE / "corpus").iterdir()) == NAMES


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", NAMES)
def test_a_fuzzer_finds_nothing(name: str, tmp_path: Path, soak: bool) -> None:
    fuzzer = ROOT / "build" / "fuzz" / "tests" / "fuzz" / f"{name}_fuzz"
    if not fuzzer.exists():
        pytest.skip("`make build/fuzz` has not made it, which needs clang++ with libFuzzer")
    found = tmp_path / "found"
    found.mkdir()
    seed, seconds = (secrets.randbits(31), 300) if soak else (1, 5)
    options = [f"-seed={seed}", f"-max_total_time={seconds}", "-max_len=512", "-timeout=25"]
    run = subprocess.run(
        [fuzzer, *options, f"-artifact_prefix={found}/", found, HERE / "corpus" / name],
        capture_output=True,
        text=True,
        errors="replace",
        timeout=500,
    )
    inputs = [f"{path.name}: {path.read_bytes().hex()}" for path in found.glob("*-*")]
    assert run.returncode == 0, "\n".join([f"seed {seed}", *inputs, run.stderr[-10_000:]])
    assert "Done " in run.stderr
