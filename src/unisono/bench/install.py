"""Puts peers where `unisono bench --peers` finds them, each in a virtual environment of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from ..errors import ConfigError
from .peers import SHARED_MEMORY, TCP, Peer


def install(names: list[str], directory: Path, *, tell: Callable[[str], None]) -> None:
    """For shared memory and for TCP; what is there already is left as it is."""
    wanted = {peer.home: peer for launch in (SHARED_MEMORY, TCP) for name, peer in launch.items() if name in names}
    for peer in wanted.values():
        home = directory / f"v_{peer.home}"
        if peer.find(directory):
            tell(f"{peer.name} is in {home} already")
            continue
        tell(f"{peer.name}: {peer.how_to_install(str(directory))}")
        _install(peer, home)


def _install(peer: Peer, home: Path) -> None:
    pip = [str(home / "bin" / "pip"), "--disable-pip-version-check", "-q", "install"]
    for command in ([sys.executable, "-m", "venv", str(home)], *([*pip, *line.split()] for line in peer.pip)):
        ended = subprocess.run(command, capture_output=True, text=True)
        if ended.returncode:
            why = (ended.stderr.strip() or ended.stdout.strip()).splitlines()
            raise ConfigError(f"{peer.name} cannot be installed by {' '.join(command)}: {why[-1] if why else ''}")
