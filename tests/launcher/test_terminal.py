"""`unisono run` on a terminal, as a person has it: what is shown there, what is read from it, and Ctrl-C."""

import os
import pty
import subprocess
from pathlib import Path

import pytest
from tests.launcher.processes import command, eventually, run


class Terminal:
    """One that a command, started in front of it, can read and write."""

    def __init__(self, *arguments: object) -> None:
        self._ours, theirs = pty.openpty()
        self.process = subprocess.Popen(
            command(*arguments), stdin=theirs, stdout=theirs, stderr=theirs, preexec_fn=lambda: os.login_tty(0)
        )
        os.close(theirs)
        self.seen = ""

    def type(self, text: bytes) -> None:
        os.write(self._ours, text)

    def read_until(self, text: str) -> None:
        while text not in self.seen and self._read():
            pass
        assert text in self.seen

    def read_all(self) -> str:
        while self._read():
            pass
        os.close(self._ours)
        self.process.wait(60)
        return self.seen

    def _read(self) -> bool:
        try:
            self.seen += os.read(self._ours, 1000).decode()
        except OSError:  # how a pseudo-terminal says that the other end is closed
            return False
        return True


def on_a_terminal(*arguments: object) -> str:
    return Terminal(*arguments).read_all()


def test_labels_are_coloured_on_a_terminal_unless_unwanted(script, monkeypatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[33m[1]\x1b[0m here" in on_a_terminal("-n", 2, script("print('here')"))
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[33m" not in on_a_terminal("-n", 2, script("print('here')"))


def test_one_rank_on_a_terminal_has_no_label_and_the_terminal(script) -> None:
    assert on_a_terminal("-n", 1, script("print(os.isatty(0), os.isatty(1))")) == "True True\r\n"


def test_rank_0_reads_the_terminal_and_ctrl_c_there_reaches_all_ranks(script, monkeypatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    text = """
import time
try:
    print('read', input() if rank == 0 else 'nothing', flush=True)
    time.sleep(60)
except KeyboardInterrupt:
    print('interrupted')
    raise
"""
    terminal = Terminal("-n", 2, script(text))
    terminal.type(b"a line\n")
    terminal.read_until("[0] read a line")
    terminal.read_until("[1] read nothing")
    terminal.type(b"\x03")
    terminal.read_until("[0] interrupted")
    terminal.read_until("[1] interrupted")
    terminal.read_all()
    assert terminal.process.returncode == 130


@pytest.mark.parametrize("terminal", [False, True])
def test_ranks_are_in_one_session(terminal: bool, script) -> None:
    """Or else Linux shares cores among sessions, and who gives a core away gives it to nobody else of the job."""
    arguments = ("-n", 3, script("print('session', os.getsid(0), os.getpgid(0) == os.getpid(), flush=True)"))
    text = on_a_terminal(*arguments) if terminal else run(*arguments).stdout
    words = [line.split("session ")[1].split() for line in text.splitlines()]
    assert words == [[words[0][0], "True"]] * 3


def test_a_killed_command_on_a_terminal_takes_its_ranks_along(script, tmp_path: Path) -> None:
    here = tmp_path / "here"
    here.mkdir()
    text = "import pathlib, sys, time\n(pathlib.Path(sys.argv[1]) / str(os.getpid())).touch()\ntime.sleep(60)"
    terminal = Terminal("-n", 2, script(text), here)
    assert eventually(lambda: len(list(here.iterdir())) == 2)
    terminal.process.kill()
    assert eventually(lambda: not any(Path("/proc", each.name).exists() for each in here.iterdir()))
    terminal.read_all()
