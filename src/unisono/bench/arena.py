"""Where contestants run, one after the other. Nothing of one is left when the next begins, or when we end."""

from __future__ import annotations

import os
import secrets
import selectors
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from ..launcher.rank import describe_end
from .contestants import Start
from .warden import MARK, PATIENCE, end_marked

WARDEN = Path(__file__).with_name("warden.py")
MOST_LINES = 8
TAIL = 4096


class Arena:
    """A directory and a mark for everything that is started here. What outlives us is ended by the warden."""

    def __enter__(self) -> Self:
        self._mark = secrets.token_hex(8)
        self.directory, self._memory = (
            Path(place, f"unisono-bench-{self._mark}") for place in (tempfile.gettempdir(), "/dev/shm")
        )
        self._warden = subprocess.Popen(
            [sys.executable, "-I", "-S", WARDEN, self._mark, self.directory, self._memory],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        for place in (self.directory, self._memory):  # not earlier: the warden removes them
            place.mkdir(mode=0o700)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        assert self._warden.stdin is not None
        self._warden.stdin.close()  # its work is the same, whether we live or not
        self._warden.wait()

    def run(self, starts: list[Start], deadline: float) -> tuple[str, list[str]]:
        """What went wrong with these processes, with the last lines that they wrote; empty if nothing did."""
        self._sweep()
        processes: list[subprocess.Popen[bytes]] = []
        output = self.directory / "output"
        try:
            with output.open("wb") as file:
                for start in starts:
                    processes.append(self._start(start, file.fileno()))
            what = _wait(processes, deadline)
            return what, _last_lines(output) if what else []  # before they complain about being ended
        except OSError as error:
            return f"cannot be started: {error.strerror}: {error.filename}", []
        finally:
            self._clear(processes)

    def _start(self, start: Start, output: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            start.command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=self._environment(start.environment),
            cwd=self.directory,
            start_new_session=True,  # Ctrl-C in the terminal is for us
        )

    def _environment(self, theirs: Mapping[str, str]) -> dict[str, str]:
        # Open MPI would leave its segments behind when it is killed; here they are removed with the directory.
        memory = {"OMPI_MCA_btl_sm_backing_directory": str(self._memory)}
        return {**theirs, **memory, "TMPDIR": str(self.directory), MARK: self._mark}

    def _clear(self, processes: list[subprocess.Popen[bytes]]) -> None:
        """After this none of them runs, nor anything that they started."""
        end_marked(self._mark)
        for process in processes:
            process.kill()
            with suppress(subprocess.TimeoutExpired):  # one that the kernel does not let go of is not waited for
                process.wait(PATIENCE)

    def _sweep(self) -> None:
        for place in (self.directory, self._memory):
            for path in place.iterdir():
                shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)


def _wait(processes: list[subprocess.Popen[bytes]], deadline: float) -> str:
    """Until all have ended well: then an empty text. Or until the first has not, or time is over."""
    end = time.monotonic() + deadline
    with selectors.DefaultSelector() as selector:
        descriptors = []
        try:
            for process in processes:
                descriptors.append(os.pidfd_open(process.pid))
                selector.register(descriptors[-1], selectors.EVENT_READ, process)
            while selector.get_map():
                if not (ready := selector.select(max(0.0, end - time.monotonic()))):
                    return f"still ran after {deadline:g} s"
                for key, _ in ready:
                    selector.unregister(key.fd)
                    if code := key.data.wait():
                        return describe_end(code)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
    return ""


def _last_lines(path: Path) -> list[str]:
    if not path.exists():
        return []
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - TAIL))
        text = file.read().decode(errors="replace")
    return [line.rstrip() for line in text.splitlines() if line.strip()][-MOST_LINES:]
