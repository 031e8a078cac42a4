"""Where no lab can be made, one line says what to install or to grant."""

import os
import subprocess
import sys

import pytest
from tests.lab.labs import command, needs_lab

NOBODY = 65534
# The interpreter and the package may lie where nobody may read: a first call, as root, has everything loaded.
AS_NOBODY = f"""
import os, sys
from contextlib import suppress
from unisono.cli.main import main
words, sys.argv[1:] = sys.argv[1:], ["lab", "down", "--name", "no-such-lab"]
with suppress(SystemExit):
    main()
sys.argv[1:] = words
os.setgroups([])
os.setgid({NOBODY})
os.setuid({NOBODY})
main()
"""


def assert_one_line(done: subprocess.CompletedProcess[str], *hints: str) -> None:
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1, done.stderr
    for hint in hints:
        assert hint in done.stderr


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become nobody")
@pytest.mark.parametrize("words", [("up",), ("run", "true"), ("down",), ("status",)], ids=lambda words: words[0])
def test_without_privileges_the_error_says_what_to_grant(words: tuple[str, ...]) -> None:
    done = subprocess.run([sys.executable, "-c", AS_NOBODY, "lab", *words], capture_output=True, text=True, timeout=60)
    assert_one_line(done, "CAP_NET_ADMIN", "CAP_SYS_ADMIN", "run it as root", "--cap-add SYS_ADMIN")


@needs_lab
def test_without_iproute2_the_error_says_what_to_install(tmp_path) -> None:
    environment = os.environ | {"PATH": str(tmp_path)}
    done = subprocess.run(command("up"), capture_output=True, text=True, timeout=60, env=environment)
    assert_one_line(done, "ip and tc of iproute2", "apt-get install iproute2")
    (tmp_path / "ip").symlink_to("/bin/true")
    done = subprocess.run(command("up"), capture_output=True, text=True, timeout=60, env=environment)
    assert_one_line(done, "needs tc of iproute2")
