"""Jobs of regret.py: ranks that measure, on this machine or in a lab."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

from unisono.lab import Lab

GRACE = 60.0
UNISONO = str(Path(sys.executable).parent / "unisono")
SCRIPT = str(Path(__file__).with_name("regret.py"))


def run(kind: str, p: int, given: argparse.Namespace, model: str) -> dict[str, Any] | None:
    """One job; None if it did not end in time."""
    begun = perf_counter()
    print(f"{kind}, {p} ranks", end="", flush=True)
    try:
        found = run_job(kind, p, given, model)
    except subprocess.TimeoutExpired as error:
        said = (error.stdout or b"").decode().splitlines() or ["nothing"]
        print(f": did not end in {given.limit + GRACE:.0f} s; the last was: {said[-1]}", flush=True)
        return None
    print(f": {perf_counter() - begun:.0f} s, rounds {found.get('rounds', 'of guidelines')}", flush=True)
    return found


def run_job(kind: str, p: int, given: argparse.Namespace, model: str) -> dict[str, Any]:
    """What the ranks found."""
    sizes = "guidelines" if given.guidelines else ",".join(map(str, given.sizes))
    words = [sys.executable, SCRIPT, "--measure", sizes, given.rounds, given.limit]
    words, timeout = [str(word) for word in words], given.limit + GRACE
    environment = os.environ | {"UNISONO_MODEL": model, "UNISONO_LINKS": "tcp" if kind == "tcp" else "auto"}
    if kind == "lab":
        done = run_in_lab(words, p, given, environment, timeout)
    else:
        command = [UNISONO, "run", "-n", str(p), *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, env=environment)
    for line in done.stdout.splitlines():
        _, is_found, found = line.partition("FOUND ")
        if is_found:
            return {"kind": kind, **json.loads(found)}
    raise SystemExit(f"{kind}, {p} ranks: {done.stderr[-2000:]}")


def run_in_lab(
    words: list[str], p: int, given: argparse.Namespace, environment: dict[str, str], timeout: float
) -> subprocess.CompletedProcess[str]:
    """In a lab of its own, whose model is measured before if that is asked for."""
    with tempfile.TemporaryDirectory() as directory:
        model = environment["UNISONO_MODEL"]
        share = [directory, *([Path(model).resolve().parent] if Path(model).is_file() else [])]
        with Lab(hosts=given.hosts or p, rate=given.rate, share=share) as lab:
            if given.tune:
                model = f"{directory}/lab.json"
                begun = perf_counter()
                tuned = lab.run(UNISONO, "tune", "--out", model, ranks=p, timeout=120)
                if tuned.returncode:
                    raise SystemExit(tuned.stderr)
                print(f", tuned in {perf_counter() - begun:.0f} s", end="", flush=True)
            return lab.run(*words, ranks=p, timeout=timeout, env=environment | {"UNISONO_MODEL": model})


def tune_here(directory: str) -> str:
    """A model for this machine."""
    here = f"{directory}/here.json"
    subprocess.run([UNISONO, "tune", "--out", here], check=True)
    return here
