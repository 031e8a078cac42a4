"""Starts the launcher as a user does, and looks for what it left behind."""

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from unisono.cli.main import main

# A test run in the background may ignore SIGINT; then its children do too, and Ctrl-C could not be tested.
MAIN = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from unisono.cli.main import main
main()
"""


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-c", MAIN, "run", *map(str, arguments)]


def run(*arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*arguments), capture_output=True, text=True, timeout=120, **options)  # type: ignore[call-overload]


def start(*arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command(*arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def complaint(arguments: list[str], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> str:
    """The line with which the command refuses these arguments; in this process, as there are many to try."""
    monkeypatch.setattr(sys, "argv", ["unisono", *arguments])
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 2
    out, err = capfd.readouterr()
    assert len(err.splitlines()) == 1
    assert out == ""
    return err


def token() -> str:
    """For the arguments of a script, to find its processes by."""
    return f"token-{uuid.uuid4().hex}"


def processes_with(text: str) -> list[int]:
    """Those that still run and have the text among their arguments."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if text.encode() in (path / "cmdline").read_bytes():
                found.append(int(path.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return [pid for pid in found if pid != os.getpid()]


def eventually(condition: Callable[[], bool], seconds: float = 60.0) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True
